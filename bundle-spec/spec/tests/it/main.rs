//! cluster.yaml: parsed, validated, shown with its defaults; and locks of earlier programs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod cluster_hosts;
mod cluster_networks;
mod cluster_parts;
mod cluster_rules;
mod cluster_show;
mod cluster_yaml;
mod every_field;
mod recorded_locks;
mod yaml_limits;
