//! From roots to the set of packages that they need, and why each is in it.

/// All packages that may be chosen.
pub struct Pool;
