//! One chart with the values that it is rendered with.

use std::path::PathBuf;

use kubexm_spec::ArtifactKey;
use kubexm_spec::rendering::merged;
use serde_json::{Map, Value};

/// How one chart (or YAML add-on) is rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartRelease {
    /// `chart/NAME` or `yaml/NAME`.
    pub key: ArtifactKey,
    /// Of helm's release.
    pub name: String,
    /// Namespace of its objects that name none.
    pub namespace: String,
    /// What stands for what only the site knows (addresses, numbers of hosts), below all other values. It changes no image.
    pub(crate) placeholders: Map<String, Value>,
    /// Built-in values: file and values are merged over them.
    pub defaults: Map<String, Value>,
    /// Laid over those of `values_file`, see [`kubexm_spec::rendering::merged`].
    pub values: Map<String, Value>,
    /// As written, relative to cluster.yaml; the builder makes it ready to be opened.
    pub values_file: Option<PathBuf>,
}

impl ChartRelease {
    /// What stands for values of the site.
    pub const fn placeholders(&self) -> &Map<String, Value> {
        &self.placeholders
    }

    /// The values that images are learnt from, with placeholders of the site. `file` is what `values_file` holds.
    pub fn rendered(&self, file: Map<String, Value>) -> Map<String, Value> {
        self.installed(&self.placeholders, file)
    }

    /// The values that it is installed with: those of the site are below all others, like the placeholders that stood for them.
    pub fn installed(&self, site: &Map<String, Value>, file: Map<String, Value>) -> Map<String, Value> {
        merged(merged(merged(site.clone(), &self.defaults), &file), &self.values)
    }

    /// The values that it is installed with, where only those are known that it was rendered with, and not its values file by
    /// itself: what has the value of a placeholder there gets that of the site.
    pub fn in_place_of_placeholders(
        &self,
        rendered: &Map<String, Value>,
        site: &Map<String, Value>,
    ) -> Map<String, Value> {
        replaced(rendered, &self.placeholders, site)
    }
}

fn replaced(
    rendered: &Map<String, Value>,
    placeholders: &Map<String, Value>,
    site: &Map<String, Value>,
) -> Map<String, Value> {
    let mut all = rendered.clone();
    for (name, value) in site {
        let value = match (rendered.get(name), placeholders.get(name), value) {
            (Some(Value::Object(rendered)), placeholders, Value::Object(site)) => {
                let placeholders = placeholders.and_then(Value::as_object).cloned().unwrap_or_default();
                Value::Object(replaced(rendered, &placeholders, site))
            }
            (Some(rendered), placeholder, _) if placeholder != Some(rendered) => continue,
            (_, _, value) => value.clone(),
        };
        all.insert(name.clone(), value);
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn values_of_the_site_take_the_place_of_placeholders_and_of_nothing_that_a_user_gave() {
        let release = ChartRelease {
            key: ArtifactKey::Chart("a".to_owned()),
            name: "a".to_owned(),
            namespace: "a".to_owned(),
            placeholders: map(json!({"replicas": 1, "api": {"host": "192.0.2.1", "port": 6443}})),
            defaults: map(json!({"mode": "pool"})),
            values: map(json!({"api": {"port": 8443}})),
            values_file: None,
        };
        let site = map(json!({"replicas": 2, "api": {"host": "10.0.0.1", "port": 6443}}));
        let wanted = json!({"replicas": 2, "api": {"host": "10.0.0.1", "port": 8443}, "mode": "pool"});
        assert_eq!(Value::Object(release.installed(&site, Map::new())), wanted);
        let rendered = release.rendered(Map::new());
        assert_eq!(Value::Object(release.in_place_of_placeholders(&rendered, &site)), wanted);
        let file = release.rendered(map(json!({"replicas": 7})));
        assert_eq!(release.in_place_of_placeholders(&file, &site)["replicas"], json!(7));
    }
}
