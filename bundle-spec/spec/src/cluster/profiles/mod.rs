//! Commented files to start from, one for each kind of site.

use crate::keywords::keywords;

keywords! {
    /// What `kubexm-bundle init --profile` writes.
    pub enum Profile {
        /// One host that is all at once; every part of the format is named in comments.
        Minimal = "minimal",
        /// Three control planes behind an address of the site's own, and workers.
        Ha = "ha",
        /// Images from Harbor on a host of its own.
        Harbor = "harbor",
        /// Built where China's mirrors are near.
        Cn = "cn",
    }
}

impl Profile {
    /// The file.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Minimal => include_str!("minimal.yaml"),
            Self::Ha => include_str!("ha.yaml"),
            Self::Harbor => include_str!("harbor.yaml"),
            Self::Cn => include_str!("cn.yaml"),
        }
    }
}
