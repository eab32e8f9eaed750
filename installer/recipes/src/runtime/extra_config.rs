//! `spec.runtime.extraConfig`: fields of containerd's own configuration, beside those that kubexm sets.

use serde_json::{Map, Value};
use toml::Table;

use crate::error::RecipeError;

/// The names that a format of the configuration has for the plugins of the CRI.
#[derive(Clone, Copy, Debug)]
pub struct CriPlugins {
    pub own: &'static [&'static str],
    /// Those of the other format, which containerd ignores.
    pub unknown: &'static [&'static str],
}

/// A configuration with fields of the user's.
#[derive(Debug)]
pub struct Merged {
    pub text: String,
    /// Lines that `containerd config dump` must show: numbers and booleans, which both formats write alike. containerd ignores keys
    /// that it does not know.
    pub shown: Vec<String>,
}

/// At the top: where others find the runtime, and what belongs to another field.
const OWN: [(&str, &str); 5] = [
    ("version", "it follows from the version of containerd"),
    ("root", "write spec.runtime.dataDir"),
    ("state", "kubexm and kubelet find containers there"),
    ("grpc", "kubelet asks containerd at its usual socket"),
    ("temp", "it is in the folder of spec.runtime.dataDir"),
];
/// Of plugins: where images are unpacked, and by what.
const DATA: [&str; 2] = ["root_path", "snapshotter"];
/// Below a plugin of the CRI: logins, mirrors and certificates.
const REGISTRY: &str = "registry";

/// Adds the user's fields to the text of kubexm's configuration. Every field that kubexm sets, or that means nothing to this version,
/// is named.
pub fn merged(text: &str, extra: &Map<String, Value>, plugins: CriPlugins) -> Result<Merged, RecipeError> {
    if extra.is_empty() {
        return Ok(Merged { text: text.to_owned(), shown: Vec::new() });
    }
    let mut merge = Merge { plugins, all: Vec::new(), shown: Vec::new() };
    let mut config: Table = toml::from_str(text).map_err(|error| RecipeError::ExtraConfig {
        all: vec![format!("kubexm's own configuration is no TOML: {error}")],
    })?;
    for (key, value) in extra {
        match OWN.iter().find(|(own, _)| own == key) {
            Some((_, why)) => merge.refuse(key, &format!("kubexm sets it: {why}")),
            None => merge.field(&mut config, &[], key, value),
        }
    }
    if !merge.all.is_empty() {
        return Err(RecipeError::ExtraConfig { all: merge.all });
    }
    let text = toml::to_string(&config)
        .map_err(|error| RecipeError::ExtraConfig { all: vec![format!("it cannot be written as TOML: {error}")] })?;
    Ok(Merged { text, shown: merge.shown })
}

struct Merge {
    plugins: CriPlugins,
    all: Vec<String>,
    shown: Vec<String>,
}

impl Merge {
    fn refuse(&mut self, path: &str, why: &str) {
        self.all.push(format!("{path}: {why}"));
    }

    fn field(&mut self, into: &mut Table, above: &[&str], key: &str, value: &Value) {
        let path: Vec<&str> = above.iter().copied().chain([key]).collect();
        let name = || path.join(".");
        if let ["plugins", plugin] = path.as_slice()
            && self.plugins.unknown.contains(plugin)
        {
            let own = self.plugins.own.join(" and ");
            return self.refuse(&name(), &format!("this version of containerd ignores it; its plugins are {own}"));
        }
        if let ["plugins", plugin, REGISTRY] = path.as_slice()
            && self.plugins.own.contains(plugin)
        {
            return self.refuse(&name(), "kubexm points containerd at registries; see spec.registry");
        }
        if matches!(path.as_slice(), ["plugins", ..]) && DATA.contains(&key) {
            return self.refuse(&name(), "it moves images and containers; their folder is spec.runtime.dataDir");
        }
        match (into.get_mut(key), value) {
            (Some(toml::Value::Table(table)), Value::Object(fields)) => {
                fields.iter().for_each(|(key, value)| self.field(table, &path, key, value));
            }
            (Some(_), _) => self.refuse(&name(), "kubexm sets it; leave it out"),
            (None, Value::Object(fields)) => {
                let mut table = Table::new();
                fields.iter().for_each(|(key, value)| self.field(&mut table, &path, key, value));
                into.insert(key.to_owned(), toml::Value::Table(table));
            }
            (None, value) => match toml::Value::try_from(value) {
                Ok(known) => {
                    if matches!(known, toml::Value::Boolean(_) | toml::Value::Integer(_)) {
                        self.shown.push(format!("{key} = {known}"));
                    }
                    into.insert(key.to_owned(), known);
                }
                Err(_) => self.refuse(&name(), "TOML has no null, and no number of this size; leave it out"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLUGINS: CriPlugins =
        CriPlugins { own: &["io.containerd.cri.v1.runtime"], unknown: &["io.containerd.grpc.v1.cri"] };
    const OURS: &str =
        "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\".containerd]\ndefault_runtime_name = \"runc\"\n";

    fn merge(extra: Value) -> Result<Merged, RecipeError> {
        let Value::Object(extra) = extra else { panic!("no mapping") };
        merged(OURS, &extra, PLUGINS)
    }

    #[test]
    fn fields_are_added_beside_kubexms() {
        let merged = merge(json!({
            "oom_score": -999,
            "imports": ["/etc/containerd/conf.d/*.toml"],
            "plugins": {"io.containerd.cri.v1.runtime": {
                "max_container_log_line_size": 32768,
                "containerd": {"runtimes": {"nvidia": {"runtime_type": "io.containerd.runc.v2", "options": {"SystemdCgroup": true}}}},
            }},
        }))
        .unwrap();
        let config: Table = toml::from_str(&merged.text).unwrap();
        assert_eq!(config["version"].as_integer(), Some(3));
        let runtime = &config["plugins"]["io.containerd.cri.v1.runtime"];
        assert_eq!(runtime["containerd"]["default_runtime_name"].as_str(), Some("runc"));
        assert_eq!(runtime["containerd"]["runtimes"]["nvidia"]["options"]["SystemdCgroup"].as_bool(), Some(true));
        assert_eq!(config["imports"][0].as_str(), Some("/etc/containerd/conf.d/*.toml"));
        let mut shown = merged.shown;
        shown.sort();
        assert_eq!(shown, ["SystemdCgroup = true", "max_container_log_line_size = 32768", "oom_score = -999"]);
    }

    #[test]
    fn what_kubexm_sets_and_what_containerd_ignores_is_refused_by_name() {
        let error = merge(json!({
            "version": 2,
            "root": "/x",
            "nothing": null,
            "plugins": {
                "io.containerd.cri.v1.runtime": {
                    "containerd": {"default_runtime_name": "nvidia", "snapshotter": "native"},
                    "registry": {"mirrors": {}},
                },
                "io.containerd.grpc.v1.cri": {"sandbox_image": "x"},
            },
        }))
        .unwrap_err()
        .to_string();
        for named in [
            "version: kubexm sets it",
            "root: kubexm sets it: write spec.runtime.dataDir",
            "nothing: TOML has no null",
            "plugins.io.containerd.cri.v1.runtime.containerd.default_runtime_name: kubexm sets it",
            "plugins.io.containerd.cri.v1.runtime.containerd.snapshotter: it moves images and containers",
            "plugins.io.containerd.cri.v1.runtime.registry: kubexm points containerd at registries",
            "plugins.io.containerd.grpc.v1.cri: this version of containerd ignores it",
        ] {
            assert!(error.contains(named), "{named}: {error}");
        }
    }

    #[test]
    fn without_fields_the_text_stays_as_it_is() {
        assert_eq!(merge(json!({})).unwrap().text, OURS);
    }
}
