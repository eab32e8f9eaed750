//! One file per op kind.

mod act;
mod binary;
mod blobs;
mod dir;
mod file;
mod hostname;
mod hosts_block;
mod image_loaded;
mod kernel_module;
mod kube_object;
mod kubeconfig;
mod link;
mod node_label;
mod node_untainted;
mod resolver;
mod selinux_mode;
mod stamp;
mod swap_off;
mod sysctl;
mod unit;
mod unpacked;
