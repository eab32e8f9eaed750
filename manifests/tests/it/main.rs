//! The catalogue: complete, refused where it is wrong, and equal to what the real kubeadm says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod add;
mod catalogue;
mod compare;
mod details;
mod doubts;
mod feature_gates;
mod features;
mod kubeadm_images;
mod limits;
mod matrix;
mod new_minor;
mod notices;
mod older_catalogue;
mod os_packages;
mod site_values;
mod support;
mod verified;
mod zone;
