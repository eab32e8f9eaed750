//! How many files beside it a cluster.yaml may name. Whoever has a bundle writes the same file's name as often as they like, and each
//! is read and kept by its name.

use crate::cluster::{Cluster, MATERIALS};
use crate::yaml::At;

pub(super) fn check(spec: &At<'_>, cluster: &Cluster) {
    let count = cluster.materials().len();
    if count > MATERIALS {
        spec.bad(
            format!("{count} files beside this one are named (materials, keys, certificates), and {MATERIALS} may be"),
            "put those of scripts into one file, or bring them with spec.bundle.extraFiles",
        );
    }
}
