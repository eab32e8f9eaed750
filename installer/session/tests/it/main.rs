//! Whole sessions over the simulated fleet, without a terminal, arguments or an environment.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

mod adopt;
mod adopted_runs;
mod authorities;
mod bad_backups;
mod bad_input;
mod bundle;
mod certs;
mod controller;
mod drift;
mod external_ca;
mod external_registry;
mod fleet;
mod identity;
mod installed;
mod inventory;
mod materials;
mod nodes;
mod out_of_reach;
mod own_certs;
mod recorded;
mod registry;
mod reset_etcd;
mod restore;
mod roles;
mod run_report;
mod secrets;
mod sessions;
mod site_ca;
mod snapshot;
mod verified;
