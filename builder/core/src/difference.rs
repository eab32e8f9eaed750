//! One difference from the lock, as a value.

use std::borrow::Cow;
use std::fmt;

use kubexm_spec::lock::LockItem;
use kubexm_spec::{ArtifactKey, Platform};
use serde::Serialize;

/// One thing that is not as it was locked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Which artifact; none when it is about the lock as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<ArtifactKey>,
    /// For which platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// What is different.
    #[serde(flatten)]
    pub what: What,
}

/// What is different.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "difference", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum What {
    /// It is needed, and the lock has none of it.
    NotLocked {
        /// The version that is needed.
        needed: String,
    },
    /// The lock has it, and nothing needs it.
    NotNeeded {
        /// The version in the lock.
        locked: String,
    },
    /// One thing about it, in the lock and as it is needed or was found now.
    Changed {
        /// `version`, `name`, `digest`, `size` …
        field: &'static str,
        /// As locked.
        locked: String,
        /// As it is now.
        now: String,
        /// Who says so now.
        by: Cow<'static, str>,
    },
}

/// Who says what is needed.
pub(crate) const NEEDED: &str = "cluster.yaml and catalogue need";

/// A difference that was found while an item was brought here.
pub(crate) fn changed(
    item: &LockItem,
    field: &'static str,
    locked: impl Into<String>,
    now: impl Into<String>,
    by: impl Into<Cow<'static, str>>,
) -> Difference {
    of(&item.key, item.platform, What::Changed { field, locked: locked.into(), now: now.into(), by: by.into() })
}

pub(crate) fn of(key: &ArtifactKey, platform: Option<Platform>, what: What) -> Difference {
    Difference { key: Some(key.clone()), platform, what }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(key) = &self.key {
            write!(f, "{key}")?;
            if let Some(platform) = self.platform {
                write!(f, " {platform}")?;
            }
            f.write_str(": ")?;
        }
        let shown = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        match &self.what {
            What::NotLocked { needed } if needed.is_empty() => f.write_str("needed, and not in the lock"),
            What::NotLocked { needed } => write!(f, "{needed} is needed, and not in the lock"),
            What::NotNeeded { locked } if locked.is_empty() => f.write_str("in the lock, and nothing needs it"),
            What::NotNeeded { locked } => write!(f, "{locked} is in the lock, and nothing needs it"),
            What::Changed { field, locked, now, by } => {
                write!(f, "{field}: the lock has {}, {by} {}", shown(locked), shown(now))
            }
        }
    }
}
