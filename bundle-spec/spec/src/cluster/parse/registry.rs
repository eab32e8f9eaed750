//! `spec.registry`: where images come from inside the gap.

use super::{or, values};
use crate::cluster::{Registry, RegistryKind};
use crate::names;
use crate::yaml::{At, Keys};

const REGISTRY: Keys = Keys {
    known: &["type", "port", "dataDir"],
    later: &["privateRegistry", "auths", "harborConfig", "insecure", "caFile", "namespaceOverride"],
};
/// What the distribution registry listens on by itself, and the format's own default for it.
const REGISTRY_PORT: u16 = 5000;

pub(super) fn default_registry() -> Registry {
    Registry::default()
}

pub(super) fn registry(at: &At<'_>) -> Option<Registry> {
    let map = at.mapping(&REGISTRY)?;
    let default = default_registry();
    let words =
        [("embedded", RegistryKind::Embedded), ("registry", RegistryKind::Registry), ("none", RegistryKind::None)];
    let kind = or(map.get("type"), default.kind, |at| at.one_of(&words, &["harbor", "external"]));
    let default_port = if kind == Some(RegistryKind::Registry) { REGISTRY_PORT } else { default.port };
    let port = or(map.get("port"), default_port, super::kubernetes::port);
    let data_dir = or(map.get("dataDir"), default.data_dir, |at| at.parsed(values::folder));
    let kind = kind?;
    if kind == RegistryKind::Registry
        && port == Some(names::DEPOT_PORT)
        && let Some(at) = map.get("port")
    {
        at.bad(
            format!("port {} is the depot's, which stands beside this registry", names::DEPOT_PORT),
            format!("choose another one; it is {REGISTRY_PORT} when left out"),
        );
    }
    let useless = match kind {
        RegistryKind::Embedded => ["dataDir"].as_slice(),
        RegistryKind::Registry => &[],
        RegistryKind::None | RegistryKind::Harbor | RegistryKind::External => &["port", "dataDir"],
    };
    for at in useless.iter().filter_map(|key| map.get(key)) {
        at.bad("the registry of this type has none".to_owned(), "leave it out");
    }
    Some(Registry { port: port?, data_dir: data_dir?, ..Registry::of(kind) })
}
