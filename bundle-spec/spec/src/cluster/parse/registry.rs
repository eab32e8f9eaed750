//! `spec.registry`: where images come from inside the gap.

use std::collections::BTreeMap;

use super::take::{maybe, named, none_of, or, port, raw, text};
use super::{addresses, secret, values};
use crate::cluster::{Harbor, Keyword, Registry, RegistryAuth, RegistryKind};
use crate::names;
use crate::yaml::{At, Field, Mapping, Object, ProblemKind, Shape};

/// `spec.registry`.
pub(super) const REGISTRY: Object = Object::new(
    "Where images come from inside the gap",
    &[
        Field::new(
            "type",
            Shape::Words(RegistryKind::WORDS),
            "kubexm-install itself, the distribution registry, Harbor, your own, or none (imported on every node)",
        ),
        Field::new("port", Shape::Number(1, 65535), "Its TCP port: 5443 embedded, 5000 registry, 443 harbor"),
        Field::new("dataDir", Shape::Text, "Folder of its data (registry, harbor)"),
        Field::new(
            "privateRegistry",
            Shape::Form("^[^/@]+(/[^@]+)?$"),
            "host[:port][/prefix] that nodes pull from; a default name when left out",
        ),
        Field::new("auths", Shape::Named(&Shape::Mapping(&AUTH)), "How registries are logged in to, by host[:port]"),
        Field::new("harborConfig", Shape::Mapping(&HARBOR), "With type harbor"),
        Field::new(
            "insecure",
            Shape::Bool,
            "Whether the registry's certificate is not checked, or plain HTTP is used (external)",
        ),
        Field::new("caFile", Shape::Text, "On this machine: the CA of the registry's certificate (external)"),
        Field::new(
            "namespaceOverride",
            Shape::Text,
            "One folder for all images, instead of one for each upstream host",
        ),
    ],
);

/// One of `spec.registry.auths`.
pub(super) const AUTH: Object = Object::new(
    "How one registry is logged in to",
    &[
        Field::needed("username", Shape::Text, "Who"),
        Field::needed("passwordFrom", Shape::Mapping(&secret::SOURCE), "Where the password comes from"),
        Field::new("password", Shape::Refused, "Refused: use passwordFrom"),
    ],
);

/// `spec.registry.harborConfig`.
pub(super) const HARBOR: Object = Object::new(
    "Harbor",
    &[
        Field::new(
            "version",
            Shape::Form("^v?[0-9]+\\.[0-9]+\\.[0-9]+([-+].*)?$"),
            "Exact version; the catalogue's default when left out",
        ),
        Field::new(
            "adminPasswordFrom",
            Shape::Mapping(&secret::SOURCE),
            "Password of admin; one is made when left out",
        ),
        Field::new(
            "databasePasswordFrom",
            Shape::Mapping(&secret::SOURCE),
            "Password of its database; one is made when left out",
        ),
        Field::new("config", Shape::Raw, "Fields of harbor.yml, merged over the defaults; no passwords"),
        Field::new("adminPassword", Shape::Refused, "Refused: use adminPasswordFrom"),
        Field::new("databasePassword", Shape::Refused, "Refused: use databasePasswordFrom"),
    ],
);

pub(super) fn registry(at: &At<'_>) -> Option<Registry> {
    let map = at.mapping(&REGISTRY)?;
    let kind = or(map.get("type"), RegistryKind::default(), |at| at.word());
    let default = Registry::of(kind.unwrap_or_default());
    let port = or(map.get("port"), default.port, port);
    let data_dir = or(map.get("dataDir"), default.data_dir, |at| at.parsed(values::folder));
    let private_registry =
        maybe(map.get("privateRegistry"), |at| if at.holds_login() { None } else { at.parsed(addresses::registry) });
    let auths = or(map.get("auths"), BTreeMap::new(), |at| named(at, addresses::registry_host, auth));
    let harbor = maybe(map.get("harborConfig"), harbor);
    let insecure = or(map.get("insecure"), false, |at| at.boolean());
    let ca_file = maybe(map.get("caFile"), |at| at.parsed(values::path));
    let namespace_override = maybe(map.get("namespaceOverride"), |at| at.parsed(values::repository));
    let kind = kind?;
    belongs(&map, kind, port);
    Some(Registry {
        kind,
        port: port?,
        data_dir: data_dir?,
        private_registry: private_registry?,
        auths: auths?,
        harbor: harbor?,
        insecure: insecure?,
        ca_file: ca_file?,
        namespace_override: namespace_override?,
    })
}

/// Each type has keys that mean nothing with another, and keys that it needs.
fn belongs(map: &Mapping<'_>, kind: RegistryKind, port: Option<u16>) {
    if kind.has_data()
        && port == Some(names::DEPOT_PORT)
        && let Some(at) = map.get("port")
    {
        at.bad(
            format!("port {} is the depot's, which is beside this registry", names::DEPOT_PORT),
            format!("choose another one; it is {} when left out", kind.default_port()),
        );
    }
    let useless: &[&str] = match kind {
        RegistryKind::Embedded => &["dataDir", "harborConfig", "insecure", "caFile"],
        RegistryKind::Registry => &["harborConfig", "insecure", "caFile"],
        RegistryKind::Harbor => &["insecure", "caFile"],
        RegistryKind::External => &["port", "dataDir", "harborConfig"],
        RegistryKind::None => {
            &["port", "dataDir", "privateRegistry", "harborConfig", "insecure", "caFile", "namespaceOverride"]
        }
    };
    none_of(map, useless, "the registry of this type has none", "leave it out");
    if kind == RegistryKind::External && map.get("privateRegistry").is_none() {
        map.at().fail(
            ProblemKind::Missing,
            "\"privateRegistry\" is missing: the address of your registry is unknown",
            "privateRegistry: registry.example.com:5000",
        );
    }
    if let (Some(at), Some(_)) = (map.get("insecure"), map.get("caFile"))
        && at.text_quiet() == Some("true")
    {
        at.bad("a certificate that is not checked needs no CA", "leave one of the two out");
    }
}

fn auth(at: &At<'_>) -> Option<RegistryAuth> {
    let map = at.mapping(&AUTH)?;
    secret::inline(&map);
    let username = map.need("username").and_then(|at| text(&at));
    // what is wrong with an inline password was reported: nothing is missing beside it
    let source = if map.has("password") { map.get("passwordFrom") } else { map.need("passwordFrom") };
    let password = source.and_then(|at| secret::source(&at));
    Some(RegistryAuth { username: username?, password: password? })
}

fn harbor(at: &At<'_>) -> Option<Harbor> {
    let map = at.mapping(&HARBOR)?;
    secret::inline(&map);
    let version = maybe(map.get("version"), |at| at.parsed(values::version));
    let admin_password = maybe(map.get("adminPasswordFrom"), secret::source);
    let database_password = maybe(map.get("databasePasswordFrom"), secret::source);
    let config = or(map.get("config"), serde_json::Map::new(), |at| {
        secret::inline_in_raw(at, "use adminPasswordFrom or databasePasswordFrom");
        raw(at)
    });
    Some(Harbor {
        version: version?,
        admin_password: admin_password?,
        database_password: database_password?,
        config: config?,
    })
}
