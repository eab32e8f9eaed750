//! Facts of a machine.

pub(crate) mod interfaces;
