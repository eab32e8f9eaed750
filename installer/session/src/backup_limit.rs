//! How long an archive can be.

/// Longer than an archive is, in bytes: etcd's data has 8 GiB at most (its documentation, "System limits").
pub(crate) const LARGEST: u64 = 20 << 30;
