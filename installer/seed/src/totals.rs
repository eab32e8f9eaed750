//! What was pushed, counted.

use serde::Serialize;

/// What was pushed, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Blobs whose bytes were sent.
    pub blobs_sent: u64,
    /// Those bytes.
    pub bytes_sent: u64,
    /// Blobs that the registry took from another repository of its own.
    pub blobs_mounted: u64,
    /// Blobs that were there; of an image that is there as a whole none is asked for.
    pub blobs_present: u64,
    /// Manifests and indexes that were pushed.
    pub manifests: u64,
    /// Tags that were made or moved.
    pub tags: u64,
}
