//! One file for each module: the steps that bring a part of a host into its wanted state.

pub mod audit;
pub mod authorities;
pub mod check;
pub mod control_plane;
pub mod depot;
pub mod dns;
pub mod endpoint;
pub mod images;
pub mod join;
pub mod join_slots;
pub mod kubeadm_config;
pub mod kubeconfig;
pub mod kubernetes;
pub mod login;
pub mod os;
pub mod packages;
pub mod programs;
pub mod record;
pub mod registry;
pub mod route;
pub mod scripts;
pub mod time;
pub mod trust;
