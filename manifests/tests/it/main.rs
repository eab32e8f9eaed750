//! The catalogue: complete, refused where it is wrong, and equal to what the real kubeadm says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod add;
mod catalogue;
mod doubts;
mod features;
mod kubeadm_images;
mod matrix;
mod new_minor;
mod os_packages;
mod support;
mod zone;
