//! Execution, rollback, the journal and the agent on the simulated fleet. Programs of their own: `ssh_link`, whose log subscriber is
//! the process's and which sshd starts as the agent; `many_hosts`, which measures peak memory and counts the hosts of one process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod agent;
mod answers;
mod backup;
mod common;
mod domains;
mod execute;
mod fetch;
mod folder;
mod journal;
mod kubeconfig;
mod link_lost;
mod one_holder;
mod packages;
mod registry_check;
mod shared;
mod slots;
mod snapshot;
mod spread;
mod undo;
