//! Why an artifact is in a bundle, or what would bring it in. Pure: every answer is `require`'s own.

use std::net::{IpAddr, Ipv4Addr};

use kubexm_manifests::{Catalogue, Requirement, Requirements, require};
use kubexm_spec::cluster::{
    API_PORT, EtcdKind, ExternalKind, InternalKind, Kubernetes, KubernetesKind, LoadBalancerMode, NetworkPlugin, Nfs,
    NodeLocalDns, OpenEbs, RegistryKind, RuntimeKind, Word,
};
use kubexm_spec::{ArtifactKey, Cluster};

use crate::update::{reference, stands_for};

/// What a word of a person stands for in a cluster.
#[derive(Clone, Debug)]
pub enum Explained {
    /// It is needed, for one platform or more.
    In(Vec<Requirement>),
    /// It is not, and these changes of cluster.yaml would bring it in, each by itself.
    Out {
        /// What is meant.
        key: ArtifactKey,
        /// `network.plugin: calico`.
        with: Vec<String>,
    },
    /// Nothing that is or could be in has this name.
    Unknown {
        /// Every key that could be meant.
        known: Vec<ArtifactKey>,
    },
}

/// Explains one word.
pub fn explain(word: &str, cluster: &Cluster, catalogue: &Catalogue, requirements: &Requirements) -> Explained {
    let found = |requirements: &Requirements| -> Vec<Requirement> {
        let fits = |item: &&Requirement| stands_for(word, &item.key, reference(&item.source));
        requirements.items.iter().filter(fits).cloned().collect()
    };
    let here = found(requirements);
    if !here.is_empty() {
        return Explained::In(here);
    }
    let mut known: Vec<ArtifactKey> = requirements.items.iter().map(|item| item.key.clone()).collect();
    let (mut key, mut with) = (None, Vec::new());
    for (change, changed) in alternatives(cluster) {
        let Ok(others) = require(&changed, catalogue) else { continue };
        if let Some(first) = found(&others).into_iter().next() {
            key.get_or_insert(first.key);
            with.push(change);
        }
        known.extend(others.items.into_iter().map(|item| item.key));
    }
    known.sort();
    known.dedup();
    match key {
        Some(key) => Explained::Out { key, with },
        None => Explained::Unknown { known },
    }
}

/// The same cluster with one thing otherwise, and what that is in the words of cluster.yaml.
fn alternatives(cluster: &Cluster) -> Vec<(String, Cluster)> {
    let mut all = Vec::new();
    let mut with = |change: String, make: &dyn Fn(&mut Cluster)| {
        let mut changed = cluster.clone();
        make(&mut changed);
        if changed != *cluster {
            all.push((change, changed));
        }
    };
    for name in &cluster.bundle.exclude {
        with(format!("{name} not in spec.bundle.exclude"), &|c| c.bundle.exclude.retain(|other| other != name));
    }
    if cluster.kubernetes.is_none() {
        with("spec.kubernetes: {}".to_owned(), &|c| c.kubernetes = Some(Kubernetes::named(&c.name)));
    }
    for kind in KubernetesKind::ALL {
        with(format!("kubernetes.type: {kind}"), &|c| {
            if let Some(kubernetes) = &mut c.kubernetes {
                kubernetes.kind = *kind;
            }
        });
    }
    with("kubernetes.nodelocaldns: {}".to_owned(), &|c| {
        if let Some(kubernetes) = &mut c.kubernetes {
            kubernetes.nodelocaldns.get_or_insert_with(NodeLocalDns::default);
        }
    });
    for kind in EtcdKind::ALL {
        with(format!("etcd.type: {kind}"), &|c| c.etcd.kind = *kind);
    }
    for kind in RuntimeKind::ALL {
        with(format!("runtime.type: {kind}"), &|c| {
            // A version is one of the runtime it stood beside.
            (c.runtime.kind, c.runtime.version) = (*kind, c.runtime.version.take().filter(|_| c.runtime.kind == *kind));
        });
    }
    for plugin in NetworkPlugin::ALL {
        with(format!("network.plugin: {plugin}"), &|c| c.network.plugin = *plugin);
    }
    with("network.multus: true".to_owned(), &|c| c.network.multus = true);
    // Any address will do: none of them brings anything in.
    let vip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for kind in ExternalKind::ALL {
        let mode =
            LoadBalancerMode::External { kind: *kind, vip, port: API_PORT, interface: None, virtual_router_id: None };
        with(format!("loadBalancer.external.type: {kind}"), &|c| c.load_balancer.mode = mode.clone());
    }
    for kind in InternalKind::ALL {
        let vip = (*kind == InternalKind::KubeVip).then_some(vip);
        let mode = LoadBalancerMode::Internal { kind: *kind, vip, port: API_PORT, interface: None };
        with(format!("loadBalancer.internal.type: {kind}"), &|c| c.load_balancer.mode = mode.clone());
    }
    for kind in RegistryKind::ALL {
        with(format!("registry.type: {kind}"), &|c| c.registry.kind = *kind);
    }
    with("storage.openebs: {}".to_owned(), &|c| {
        c.storage.open_ebs.get_or_insert_with(OpenEbs::default);
    });
    with("storage.nfs: {server, path}".to_owned(), &|c| {
        let (server, path) = ("nfs.invalid".to_owned(), "/".to_owned());
        c.storage.nfs.get_or_insert(Nfs { server, path, mount_options: Vec::new(), default_class: false });
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(word: &str, spec: &str) -> Explained {
        let text = format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: prod}}\nspec:\n{spec}");
        let (cluster, catalogue) = (kubexm_spec::cluster::parse(&text).unwrap(), Catalogue::embedded());
        let requirements = require(&cluster, &catalogue).unwrap();
        explain(word, &cluster, &catalogue, &requirements)
    }

    #[test]
    fn a_name_a_key_a_reference_and_a_repository_stand_for_the_same() {
        for word in ["pause", "image/pause", "registry.k8s.io/pause"] {
            let Explained::In(found) = told(word, "  kubernetes: {version: v1.34.4}\n") else { panic!("{word}") };
            assert_eq!(found[0].key.to_string(), "image/pause");
        }
        let Explained::In(both) = told("etcd", "  kubernetes: {}\n") else { panic!() };
        assert_eq!(both.iter().map(|item| item.key.to_string()).collect::<Vec<_>>(), ["binary/etcd", "image/etcd"]);
    }

    #[test]
    fn what_is_left_out_says_what_would_bring_it_in() {
        let Explained::Out { key, with } = told("helm", "  kubernetes: {}\n  bundle: {exclude: [helm]}\n") else {
            panic!()
        };
        assert_eq!(
            (key.to_string().as_str(), with),
            ("binary/helm", vec!["helm not in spec.bundle.exclude".to_owned()])
        );
        let Explained::Out { with, .. } = told("registry", "  kubernetes: {}\n") else { panic!() };
        assert!(with.contains(&"registry.type: registry".to_owned()), "{with:?}");
        let Explained::Out { with, .. } = told("kubeadm", "  bundle: {extraImages: [{name: \"a.test/b:1\"}]}\n") else {
            panic!()
        };
        assert!(with.contains(&"spec.kubernetes: {}".to_owned()), "{with:?}");
    }

    #[test]
    fn a_name_that_nothing_has_is_unknown_and_its_neighbours_are_known() {
        let Explained::Unknown { known } = told("kubeadmm", "  kubernetes: {}\n") else { panic!() };
        assert_eq!(crate::update::near("kubeadmm", known.iter())[0], "kubeadm");
    }
}
