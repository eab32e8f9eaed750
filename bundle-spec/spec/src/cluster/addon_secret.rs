//! Secrets of add-ons: cluster.yaml says where their values come from, and no bundle and no plan holds one.

use std::collections::BTreeMap;

use super::SecretSource;
use super::field::{Named, SecretKey, SecretType, Subdomain, section};
use crate::yaml::{Mapping, ProblemKind};

section! {
    /// A Secret in the add-on's namespace, there before the add-on
    ///
    /// One of `spec.addons[].secrets`.
    #[refused("data" => "dataFrom", "stringData" => "dataFrom")]
    #[check(has_keys(kind, data))]
    pub struct AddonSecret {
        /// Its name
        #[yaml("name" as Subdomain, required)]
        pub name: String,
        /// Its type
        #[yaml("type" as SecretType, default = OPAQUE.to_owned())]
        pub kind: String,
        /// Where the value of each key comes from
        #[yaml("dataFrom" as Named<SecretKey, SecretSource>)]
        pub data: BTreeMap<String, SecretSource>,
    }
}

const OPAQUE: &str = "Opaque";

/// Types whose keys the API server demands (core/v1), and those keys.
const KEYS: [(&str, &[&str]); 3] = [
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];

fn has_keys(map: &Mapping<'_>, kind: Option<&String>, data: Option<&BTreeMap<String, SecretSource>>) -> Option<()> {
    let (kind, data) = (kind?, data?);
    let hint = "dataFrom: {KEY: {env: NAME}}, or {KEY: {file: PATH}}";
    if data.is_empty() {
        map.at().fail(ProblemKind::Missing, "this Secret has no values", hint);
        return None;
    }
    let wanted = KEYS.iter().find(|(known, _)| known == kind).map_or(&[][..], |(_, keys)| keys);
    let missing: Vec<&str> = wanted.iter().copied().filter(|key| !data.contains_key(*key)).collect();
    if !missing.is_empty() {
        map.at().fail(
            ProblemKind::Missing,
            format!("a Secret of type {kind} also has {}", missing.join(" and ")),
            hint,
        );
        return None;
    }
    Some(())
}

impl AddonSecret {
    /// The field of a value: by this name a plan asks for it.
    pub fn field(&self, addon: &str, key: &str) -> String {
        format!("spec.addons.{addon}.secrets.{}.dataFrom.{key}", self.name)
    }
}
