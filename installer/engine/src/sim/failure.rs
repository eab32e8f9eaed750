//! Failures that a test injects.

/// Where the fleet fails, once. Converges of ops are counted from 1 over all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The n-th converge fails and has changed nothing.
    Before(u64),
    /// The n-th converge fails after it has changed everything.
    After(u64),
    /// The n-th undo (of a step in a wave, over all hosts) fails and has changed nothing.
    Undo(u64),
    /// The n-th undo fails after it has restored everything.
    AfterUndo(u64),
}
