//! Options that several verbs have.

mod fetching;
mod network;
mod signing_key;
pub mod size;
mod trust;
mod what;

pub use fetching::Fetching;
pub use network::{Network, explained, without_secrets};
pub use signing_key::KeyArgs;
pub use trust::TrustArgs;
pub use what::What;
