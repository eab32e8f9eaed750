//! cluster.yaml: parsed, validated, shown with its defaults.

mod cluster_hosts;
mod cluster_rules;
mod cluster_show;
mod cluster_yaml;
mod every_field;
