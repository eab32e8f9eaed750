//! The catalogue.json of bundles that an older program made: `fixtures/catalogue-v1.json` was written by the last program of v1, for
//! Kubernetes 1.34.11 with cilium, Harbor, ingress-nginx and tigera-operator.

use kubexm_manifests::catalogue::SCHEMA;
use kubexm_manifests::{Catalogue, CatalogueError, doubts, require};
use kubexm_spec::Program;
use kubexm_spec::cluster::parse;

const V1: &[u8] = include_bytes!("../fixtures/catalogue-v1.json");
const CLUSTER: &str = "apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: old}
spec:
  kubernetes: {version: v1.34.11}
  network: {plugin: cilium}
  registry: {type: harbor}
  addons:
  - {name: ingress-nginx, type: helm, source: {catalogue: ingress-nginx}}
  - {name: tigera-operator, type: helm, source: {catalogue: tigera-operator}}
";

#[test]
fn a_catalogue_of_v1_requires_what_it_required_when_it_was_made() {
    let old = Catalogue::from_json(V1).unwrap();
    assert_eq!(old.schema, SCHEMA);
    let needed = require(&parse(CLUSTER).unwrap(), &old).unwrap();
    // names and versions as the bundle has them, and not as they are chosen today
    let containerd = needed.items.iter().find(|item| item.key.to_string() == "binary/containerd").unwrap();
    assert!(format!("{:?}", containerd.source).contains("/containerd-2.2.7-linux-amd64.tar.gz"));
    assert_eq!(old.component(Program::Containerd).unwrap().libc("2.2.7"), None);
    let images = needed.images();
    assert!(images.contains(&"docker.io/calico/node:v3.31.7"), "{images:?}");
    assert!(images.contains(&"registry.k8s.io/ingress-nginx/controller:v1.14.3"), "{images:?}");
    assert_eq!(needed.versions.as_ref().unwrap().programs["kubeadm"], "1.34.11");
    // what was called unverified then is so still, and what was not is not
    let about: Vec<String> = doubts(&needed, &old).into_iter().map(|doubt| doubt.about).collect();
    // (a bundle's catalogue has never carried the list of what lies in Harbor's archive)
    assert_eq!(about, ["Kubernetes 1.34.11", "cilium 1.18.5", "ingress-nginx 1.14.3", "tigera-operator 3.31.7"]);
}

#[test]
fn what_is_read_of_v1_is_written_as_v2_and_read_again() {
    let old = Catalogue::from_json(V1).unwrap();
    assert_eq!(Catalogue::from_json(&old.to_json().unwrap()).unwrap(), old);
    // one of a later schema is named as that, also where it has fields that are not known here; v1's own fields are none of v2
    let text = String::from_utf8(V1.to_vec()).unwrap();
    let read = |schema: &str| Catalogue::from_json(text.replace("catalogue/v1", schema).as_bytes()).unwrap_err();
    let later = read("catalogue/v3\", \"news\": \"x");
    assert!(matches!(&later, CatalogueError::Schema { found } if found == "kubexm.io/catalogue/v3"), "{later}");
    assert!(matches!(read("catalogue/v2"), CatalogueError::Json { .. }));
}
