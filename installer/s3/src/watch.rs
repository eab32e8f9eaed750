//! What a caller learns of a transfer, and how he ends it.

use std::time::Duration;

/// What is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// To the server.
    Up,
    /// From it.
    Down,
}

/// Learns of transfers. Called often; it must be quick.
pub trait Watch: Send + Sync {
    /// Bytes were moved: so far, and in all.
    fn moved(&self, way: Moved, done: u64, total: u64);

    /// It is tried again: who, why, which try it was and of how many, and the pause before the next.
    fn waiting(&self, at: &str, reason: &str, tries: (u32, u32), pause: Duration);

    /// Whether to end. Asked between parts, pages and tries.
    fn is_stopped(&self) -> bool;
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn moved(&self, _: Moved, _: u64, _: u64) {}

    fn waiting(&self, _: &str, _: &str, _: (u32, u32), _: Duration) {}

    fn is_stopped(&self) -> bool {
        false
    }
}
