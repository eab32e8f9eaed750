//! Which entries of `spec.registry.auths` a cluster uses, and for which registry.

use std::borrow::Cow;
use std::path::Path;

use super::{Cluster, DockerLogin, RegistryAuth, RegistryKind, RegistryPassword, SecretFrom};
use crate::names;

/// The user's own registry, which is used as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalRegistry<'a> {
    /// `registry.example.com:8443`.
    pub address: &'a str,
    /// `mirror/team`; none if images are at the top.
    pub prefix: Option<&'a str>,
    /// The one folder that has the images of all upstream hosts; none if each host has its own.
    pub namespace: Option<&'a str>,
    /// Whether its certificate is not checked, or it has none.
    pub insecure: bool,
    /// The CA of its certificate, on the controller; none if it is one that every host knows.
    pub ca_file: Option<&'a Path>,
}

impl ExternalRegistry<'_> {
    /// The repository of an image by its name without tag and digest: `mirror/registry.k8s.io/pause`.
    pub fn repository(&self, image: &str) -> String {
        let (host, path) = image.split_once('/').unwrap_or(("docker.io", image));
        format!("{}/{path}", self.folder(host))
    }

    /// The folder of an upstream host: `mirror/registry.k8s.io`.
    pub fn folder(&self, host: &str) -> String {
        let folder = self.namespace.map_or_else(|| names::registry_folder(host), str::to_owned);
        self.prefix.map_or_else(|| folder.clone(), |prefix| format!("{prefix}/{folder}"))
    }
}

/// A login of `spec.registry.auths` that the cluster uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryLogin<'a> {
    /// The key of the entry, `registry.demo.kubexm.internal:5443`.
    pub registry: &'a str,
    /// User name; has no colon.
    pub username: &'a str,
    /// Where its password comes from.
    pub password: &'a RegistryPassword,
}

impl<'a> RegistryLogin<'a> {
    /// What its password is read from.
    pub fn source(&self) -> SecretFrom<'a> {
        match self.password {
            RegistryPassword::Secret(source) => SecretFrom::Source(Cow::Borrowed(source)),
            RegistryPassword::DockerConfig(path) => {
                SecretFrom::Docker(DockerLogin { path, registry: self.registry, username: self.username })
            }
        }
    }

    /// The field of the password's source: by this name a plan asks for it.
    pub fn field(&self) -> String {
        format!("spec.registry.auths.{}.passwordFrom", self.registry)
    }
}

impl Cluster {
    /// The login that the cluster's own depot demands, and the distribution registry beside it. Its entry is named for the
    /// cluster's registry, with or without one of the two ports.
    pub fn depot_login(&self) -> Option<RegistryLogin<'_>> {
        self.login(self.depot_keys())
    }

    /// The login for the user's own registry (`type: external`), by its `host[:port]`.
    pub fn external_login(&self) -> Option<RegistryLogin<'_>> {
        self.login(self.external_registry().map(|registry| registry.address.to_owned()))
    }

    /// Keys of `spec.registry.auths` that name no registry of this cluster, or one whose login is there already.
    pub fn unused_logins(&self) -> Vec<&str> {
        let used = [self.depot_login(), self.external_login()].map(|login| login.map(|login| login.registry));
        self.registry.auths.keys().map(String::as_str).filter(|key| !used.contains(&Some(key))).collect()
    }

    /// The keys that [`Cluster::depot_login`] looks for, the best first.
    pub fn depot_keys(&self) -> [String; 3] {
        let name = names::registry_name(&self.name);
        let registry = &self.registry;
        [format!("{name}:{}", registry.port), format!("{name}:{}", registry.depot_port()), name]
    }

    /// The user's own registry (`type: external`).
    pub fn external_registry(&self) -> Option<ExternalRegistry<'_>> {
        let registry = &self.registry;
        let name = registry.private_registry.as_deref().filter(|_| registry.kind == RegistryKind::External)?;
        let (address, prefix) = name.split_once('/').map_or((name, None), |(host, prefix)| (host, Some(prefix)));
        let (insecure, ca_file) = (registry.insecure, registry.ca_file.as_deref());
        Some(ExternalRegistry { address, prefix, namespace: registry.namespace_override.as_deref(), insecure, ca_file })
    }

    fn login(&self, keys: impl IntoIterator<Item = String>) -> Option<RegistryLogin<'_>> {
        let found = keys.into_iter().find_map(|key| self.registry.auths.get_key_value(&key));
        found.map(|(registry, RegistryAuth { username, password })| RegistryLogin { registry, username, password })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Registry, SecretSource};

    fn cluster(kind: RegistryKind, keys: &[&str]) -> Cluster {
        let auth = |key: &&str| {
            let password = SecretSource::Env("SECRET".to_owned()).into();
            ((*key).to_owned(), RegistryAuth { username: (*key).to_owned(), password })
        };
        let mut registry = Registry { auths: keys.iter().map(auth).collect(), ..Registry::of(kind) };
        registry.private_registry = (kind == RegistryKind::External).then(|| "r.example.com:8443/mirror".to_owned());
        Cluster { registry, ..Cluster::named("demo") }
    }

    #[test]
    fn images_are_below_the_prefix_by_their_upstream_host() {
        let cluster = cluster(RegistryKind::External, &[]);
        let registry = cluster.external_registry().unwrap();
        assert_eq!((registry.address, registry.prefix), ("r.example.com:8443", Some("mirror")));
        assert_eq!(registry.repository("registry.k8s.io/coredns/coredns"), "mirror/registry.k8s.io/coredns/coredns");
        assert_eq!(registry.repository("10.0.0.1:5000/x/y"), "mirror/10.0.0.1-5000/x/y");
        let top = ExternalRegistry { prefix: None, ..registry };
        assert_eq!(top.repository("quay.io/x"), "quay.io/x");
        let one = ExternalRegistry { namespace: Some("team/all"), ..registry };
        assert_eq!(one.repository("registry.k8s.io/coredns/coredns"), "mirror/team/all/coredns/coredns");
        assert_eq!(one.folder("quay.io"), one.folder("registry.k8s.io"));
    }

    #[test]
    fn an_entry_is_used_by_the_registry_that_it_names_and_every_other_one_is_reported() {
        const NAME: &str = "registry.demo.kubexm.internal";
        let with = |port: u16| format!("{NAME}:{port}");
        let depot = |kind, key: &str| {
            let cluster = cluster(kind, &[key]);
            let found = cluster.depot_login().map(|login| login.field());
            assert_eq!(found.is_none(), cluster.unused_logins() == [key], "{kind} {key}");
            found
        };
        let field = |key: &str| Some(format!("spec.registry.auths.{key}.passwordFrom"));
        for kind in [RegistryKind::Embedded, RegistryKind::Registry, RegistryKind::None] {
            assert_eq!(depot(kind, NAME), field(NAME));
            assert_eq!(depot(kind, &with(5443)), field(&with(5443)));
            assert_eq!(depot(kind, &with(6000)), None);
            assert_eq!(depot(kind, "registry.other.kubexm.internal"), None);
        }
        assert_eq!(depot(RegistryKind::Registry, &with(5000)), field(&with(5000)));
        assert_eq!(depot(RegistryKind::Embedded, &with(5000)), None);
        let twice = cluster(RegistryKind::Embedded, &[NAME, &with(5443)]);
        assert_eq!(twice.depot_login().map(|login| login.registry), Some(&*with(5443)));
        assert_eq!(twice.unused_logins(), [NAME]);

        let both = cluster(RegistryKind::External, &[NAME, "r.example.com:8443", "r.example.com"]);
        assert_eq!(both.external_login().map(|login| login.registry), Some("r.example.com:8443"));
        assert_eq!(both.depot_login().map(|login| login.registry), Some(NAME));
        assert_eq!(both.unused_logins(), ["r.example.com"]);
        assert_eq!(cluster(RegistryKind::Embedded, &["r.example.com:8443"]).external_login(), None);
    }
}
