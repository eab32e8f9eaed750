//! Settings of a cluster that no recipe supports yet: all are reported at once, before a host is changed.
//!
//! Every pipeline checks this first, so that no setting of cluster.yaml is ignored silently: a field either changes the
//! plan or is reported here (`tests/it/fields.rs` tests every field).

use kubexm_spec::cluster::{Cluster, EtcdKind};
pub use kubexm_spec::unsupported::{Unsupported, check};

use crate::error::RecipeError;

/// Refuses a cluster if any of its settings would be ignored.
pub fn refuse(cluster: &Cluster) -> Result<(), RecipeError> {
    let all = check(cluster);
    if all.is_empty() { Ok(()) } else { Err(RecipeError::NotInstalled { all }) }
}

/// Refuses what is built for kubeadm's own etcd only.
pub fn refuse_other_etcd(cluster: &Cluster, what: &str, hint: &str) -> Result<(), RecipeError> {
    match cluster.etcd.kind {
        EtcdKind::Kubeadm => Ok(()),
        kind => {
            let what = format!("{what} of a cluster with spec.etcd.type {kind}");
            Err(RecipeError::Unsupported { what, hint: hint.to_owned() })
        }
    }
}

/// Refuses what is built for an etcd of the cluster's own only.
pub fn refuse_external_etcd(cluster: &Cluster, what: &str, hint: &str) -> Result<(), RecipeError> {
    match cluster.etcd.kind {
        EtcdKind::Kubeadm | EtcdKind::Kubexm => Ok(()),
        EtcdKind::External => {
            let what = format!("{what} of a cluster with spec.etcd.type external");
            Err(RecipeError::Unsupported { what, hint: hint.to_owned() })
        }
    }
}
