//! Plans that the recipes write: golden files, the matrix of fields, and preflight.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod addons;
mod adopt;
mod adopted_certs;
mod balancer;
mod calico;
mod certs_renew;
mod cluster_ca;
mod common;
mod create;
mod create_fleet;
mod delete_node;
mod depot;
mod docker;
mod etcd;
mod external_registry;
mod fields;
mod from_backup;
mod golden;
mod logins;
mod matrix;
mod mesh;
mod multus;
mod nodelocaldns;
mod older_bundle;
mod packages;
mod preflight;
mod registries;
mod registry_prune;
mod removed_addons;
mod reset;
mod storage;
mod templates;
mod time;
mod timers;
mod upgrade;
