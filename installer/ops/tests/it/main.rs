//! Every op, its undo, the ledger and facts, on machines rooted in directories. `umask` is a program of its own: a umask is the
//! process's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod backup;
mod certificates;
mod cluster_facts;
mod common;
mod drain;
mod drift;
mod etcd;
mod etcd_snapshot;
mod evidence;
mod facts;
mod filled;
mod harbor;
mod helm_release;
mod https;
mod join;
mod kube_object;
mod kubeadm_files;
mod kubeadm_upgrade;
mod ledger;
mod links;
mod manifests;
mod node_object;
mod packages;
mod programs;
mod registry_layout;
mod release_absent;
mod scripts;
mod shared_files;
mod state_folders;
mod static_pod;
mod survey;
mod teardown;
mod timers;
mod traps;
