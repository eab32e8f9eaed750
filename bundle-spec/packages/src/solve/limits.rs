//! How much one solve may do. Indexes that nobody signs could be made to take days otherwise.
//!
//! What is done is counted, and not timed: the same input has the same answer on every machine.

/// Limits of one solve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Comparisons of a package with what is wanted. What a host needs takes some million.
    pub(super) comparisons: u64,
    /// How often resolvo may decide, or ask about a package. An answer for a host takes some thousand; its search has no end of its
    /// own that anybody would wait for.
    pub(super) decisions: u32,
    /// What the model keeps for resolvo: sets of versions as often as they are named, and versions of different sets. An answer for a
    /// host takes some hundred thousand; each takes up to some hundred bytes of memory.
    pub(super) sets: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { comparisons: 1_000_000_000, decisions: 500_000, sets: 5_000_000 }
    }
}
