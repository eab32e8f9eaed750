//! One file per op kind.

pub(crate) mod act;
mod binary;
mod blobs;
mod dir;
mod file;
mod hostname;
pub(crate) mod hosts_block;
pub(crate) mod image_loaded;
pub(crate) mod kernel_module;
mod kube_object;
mod kubeconfig;
mod link;
pub(crate) mod move_aside;
mod node_label;
mod node_untainted;
pub(crate) mod packages;
mod registry_layout;
mod reset;
pub(crate) mod resolver;
mod selinux_mode;
pub(crate) mod stamp;
pub(crate) mod state_dir;
mod static_pod_started;
pub(crate) mod swap_off;
pub(crate) mod sysctl;
mod unit;
mod unpacked;
