//! Files of other tools. Whatever they say, what is written is a cluster.yaml that our own strict reader takes and has no
//! password in an address, or nothing is written.

use kubexm_builder::import::{Defaults, Imported, KUBEKEY, kubekey, live};
use kubexm_spec::cluster;

/// Files of the shapes that KubeKey writes: those that the importer's own tests hold.
pub(crate) const CLUSTERS: &[&str] = &[
    include_str!("../../../../builder/core/src/import/tests/samples/generated.yaml"),
    include_str!("../../../../builder/core/src/import/tests/samples/every-part.yaml"),
    include_str!("../../../../builder/core/src/import/tests/samples/offline.yaml"),
];

/// The same of an artifact.
pub(crate) const MANIFESTS: &[&str] =
    &[include_str!("../../../../builder/core/src/import/tests/samples/manifest.yaml")];

/// KubeKey's `Cluster`: the bytes as a file, and as what its spec says.
pub(crate) fn cluster(bytes: &[u8]) {
    file("Cluster", bytes);
}

/// KubeKey's `Manifest`, in the same two ways.
pub(crate) fn manifest(bytes: &[u8]) {
    file("Manifest", bytes);
}

fn file(kind: &str, bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let spec = format!("apiVersion: {KUBEKEY}\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n{text}");
    for text in [text, &spec] {
        for defaults in [Defaults::Report, Defaults::Write, Defaults::Comment] {
            if let Ok(imported) = kubekey(text, defaults) {
                holds(&imported);
                assert_eq!(kubekey(text, defaults).unwrap(), imported);
            }
        }
    }
}

/// The pods of a running cluster.
pub(crate) fn pods(bytes: &[u8]) {
    if let Ok(imported) = live(bytes) {
        holds(&imported);
    }
}

fn holds(imported: &Imported) {
    cluster::parse(&imported.cluster_yaml).unwrap();
    assert!(!shows_password(&imported.cluster_yaml), "{}", imported.cluster_yaml);
    for left in &imported.left {
        assert!(!shows_password(&left.to_string()), "{left}");
    }
}

/// `https://me:it@`
fn shows_password(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~%!$&()*+,;=:@[]".contains(c);
        let authority = rest.split(|c: char| !plain(c)).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(login, _)| login.contains(':'))
    })
}
