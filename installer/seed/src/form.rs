//! How an image in the registry differs from upstream's.

use serde::{Serialize, Serializer};

/// How the image differs from upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Byte for byte upstream's, with everything that an index names.
    Whole,
    /// Upstream's index, which names platforms that are not there.
    Sparse,
    /// The manifest of the only platform, in place of the index.
    OnePlatform,
    /// An index of the platforms that are there, in place of upstream's.
    Reduced,
}

impl Serialize for Form {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Whole => "whole",
            Self::Sparse => "sparseIndex",
            Self::OnePlatform => "onePlatform",
            Self::Reduced => "reducedIndex",
        })
    }
}
