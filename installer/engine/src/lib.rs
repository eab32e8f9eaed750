//! The engine carries a plan out: DAG, journal, resume, and the links to the machines.

pub mod link;
