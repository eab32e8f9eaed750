//! The authorities of a cluster, sealed for its operators: where they are on a control plane, and for whom.

use serde::{Deserialize, Serialize};

/// The file on every control plane.
pub const SEALED_AUTHORITIES: &str = "/etc/kubexm/authorities.json";

/// Files that hold the certificate of the registry's CA on a host: on every node, and on the host of the depot.
pub const REGISTRY_CAS: [&str; 2] = ["/etc/kubexm/registry-ca.crt", "/etc/kubexm/depot/ca.crt"];

/// Somebody who can open them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recipient {
    /// The public key of an age identity, `age1…`.
    pub key: String,
    /// Name in `spec.operators`; none for a home that created the cluster and is not named there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl std::fmt::Display for Recipient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.key),
            None => f.write_str(&self.key),
        }
    }
}
