//! Carrying a checked plan out: the question, the run, the kubeconfig, and what is told at the end.

pub mod again;
pub mod agents;
pub mod begin;
pub mod carry_out;
pub mod chosen;
pub mod consent;
mod kubeconfig;
pub mod told;
