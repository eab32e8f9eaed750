//! Bundles that are named by an address, and the messages about such addresses.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Errors about addresses of bundles, on a web server or in a registry.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Whether `http://` may be spoken.
    pub plain_http: bool,
    /// CA certificates (PEM) to trust besides the usual ones.
    pub ca_file: Option<PathBuf>,
    /// Addresses with what may be a key in them, by the address as it may be shown: what is shown goes into messages, the
    /// whole one into requests only.
    pub whole: HashMap<String, String>,
    /// Whether waits for an origin are kept from the events, but for transfers whose events are all that is shown.
    pub quiet: bool,
}

/// The address of a web server, where a bundle is named by one.
pub fn is_address(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.starts_with("https://") || text.starts_with("http://"))
}
