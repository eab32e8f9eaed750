//! What an add-on was rendered to when it was locked: its images, under (digest of the chart, digest of the values). Other
//! values may want other images, which a bundle does not have: both programs refuse them by [`check`].

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ArtifactKey, Digest, ExitCode};

/// The most bytes that the values of one add-on may have.
pub const VALUES_LIMIT: u64 = 1 << 20;

/// The images of one chart or YAML add-on, as it was rendered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rendering {
    /// `chart/NAME` or `yaml/NAME`.
    pub key: ArtifactKey,
    /// Digest of the chart's archive, or of the YAML.
    pub source: Digest,
    /// [`digest`] of `values`.
    pub values_digest: Digest,
    /// The namespace that it was rendered for.
    pub namespace: String,
    /// `--kube-version`; none in a bundle without a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
    /// What the user said, values file and inline values as one; not the chart's own defaults.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
    /// Full references, sorted: each is an image of the lock, under `chart-image/…` or any other key.
    pub images: Vec<String>,
}

/// What is about to be installed, or built from a lock.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// `chart/NAME` or `yaml/NAME`.
    pub key: &'a ArtifactKey,
    /// Digest of the chart or YAML that the bundle (or the lock) has.
    pub source: Digest,
    /// Values file and inline values as one, see [`merged`].
    pub values: &'a Map<String, Value>,
    /// Target namespace.
    pub namespace: &'a str,
    /// `v1.34.4`.
    pub kubernetes: Option<&'a str>,
}

/// Something that is not as it was rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderingMismatch {
    /// `chart/NAME` or `yaml/NAME`.
    pub key: ArtifactKey,
    /// What is different.
    pub what: Other,
}

/// What is different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Other {
    /// Nobody rendered it.
    NotRendered,
    /// Another chart, or another YAML.
    Source {
        /// The one that was rendered.
        rendered: Digest,
        /// The one that is there.
        asked: Digest,
    },
    /// Other values. Only their places are reported: a value may be a secret.
    Values {
        /// `image.tag`, `controller.args[0]`.
        places: Vec<String>,
    },
    /// Another namespace.
    Namespace {
        /// The one that was rendered for.
        rendered: String,
        /// The one that is wanted.
        asked: String,
    },
    /// Another Kubernetes.
    Kubernetes {
        /// The one that was rendered for.
        rendered: String,
        /// The one that is wanted.
        asked: String,
    },
}

impl RenderingMismatch {
    /// The images of another rendering may not be there.
    pub const fn exit_code(&self) -> ExitCode {
        ExitCode::BundleIncomplete
    }
}

impl fmt::Display for RenderingMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.key)?;
        match &self.what {
            Other::NotRendered => {
                f.write_str("it was not rendered when the bundle was locked, so its images are not known")
            }
            Other::Source { rendered, asked } => write!(f, "{rendered} was rendered, and {asked} is there"),
            Other::Values { places } => write!(
                f,
                "its values are not those that it was rendered with when its images were locked; different: {}; build a \
                 bundle with these values, or go back to those",
                places.join(", ")
            ),
            Other::Namespace { rendered, asked } => {
                write!(f, "it was rendered for namespace {rendered}, expected {asked}")
            }
            Other::Kubernetes { rendered, asked } => {
                write!(f, "it was rendered for Kubernetes {rendered}, expected {asked}")
            }
        }
    }
}

/// Holds what is to be installed against what was rendered; everything that is different, in the order asked.
pub fn check(renderings: &[Rendering], asked: &[Asked<'_>]) -> Vec<RenderingMismatch> {
    asked.iter().flat_map(|asked| check_one(renderings.iter().find(|r| r.key == *asked.key), asked)).collect()
}

fn check_one(rendering: Option<&Rendering>, asked: &Asked<'_>) -> Vec<RenderingMismatch> {
    let other = |what| RenderingMismatch { key: asked.key.clone(), what };
    let Some(rendering) = rendering else { return vec![other(Other::NotRendered)] };
    let mut all = Vec::new();
    if rendering.source != asked.source {
        all.push(other(Other::Source { rendered: rendering.source, asked: asked.source }));
    }
    // The digest decides: the values beside it are there to tell the places.
    if rendering.values_digest != digest(asked.values) {
        let mut places = Vec::new();
        differences(&rendering.values, asked.values, "", &mut places);
        all.push(other(Other::Values { places }));
    }
    // Objects that are applied as they are have no namespace and no version of their own.
    if matches!(asked.key, ArtifactKey::Chart(_)) {
        if rendering.namespace != asked.namespace {
            let (rendered, asked) = (rendering.namespace.clone(), asked.namespace.to_owned());
            all.push(other(Other::Namespace { rendered, asked }));
        }
        if rendering.kubernetes.as_deref() != asked.kubernetes {
            let shown = |version: Option<&str>| version.unwrap_or("no cluster").to_owned();
            let (rendered, asked) = (shown(rendering.kubernetes.as_deref()), shown(asked.kubernetes));
            all.push(other(Other::Kubernetes { rendered, asked }));
        }
    }
    all
}

/// Digest of values, independent of how they were written: over their JSON with sorted keys and no blanks.
pub fn digest(values: &Map<String, Value>) -> Digest {
    let mut text = String::new();
    canonical(values, &mut text);
    Digest::of(text)
}

fn canonical(values: &Map<String, Value>, text: &mut String) {
    let mut names: Vec<&String> = values.keys().collect();
    names.sort_unstable();
    text.push('{');
    for (index, name) in names.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(name.as_str()).to_string());
        text.push(':');
        if let Some(value) = values.get(name) {
            canonical_value(value, text);
        }
    }
    text.push('}');
}

fn canonical_value(value: &Value, text: &mut String) {
    match value {
        Value::Object(values) => canonical(values, text),
        Value::Array(values) => {
            text.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                canonical_value(value, text);
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

/// Inline values laid over those of the values file, as helm does with `-f a -f b`: maps key by key, anything else whole.
pub fn merged(file: Map<String, Value>, inline: &Map<String, Value>) -> Map<String, Value> {
    let mut all = file;
    for (name, value) in inline {
        let value = match (all.remove(name), value) {
            (Some(Value::Object(below)), Value::Object(above)) => Value::Object(merged(below, above)),
            (_, value) => value.clone(),
        };
        all.insert(name.clone(), value);
    }
    all
}

/// How many places an error names.
const PLACES: usize = 20;

fn differences(rendered: &Map<String, Value>, asked: &Map<String, Value>, above: &str, places: &mut Vec<String>) {
    let names: std::collections::BTreeSet<&String> = rendered.keys().chain(asked.keys()).collect();
    for name in names {
        let place = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        difference(rendered.get(name), asked.get(name), place, places);
    }
}

fn difference(rendered: Option<&Value>, asked: Option<&Value>, place: String, places: &mut Vec<String>) {
    if rendered == asked || places.len() >= PLACES {
        return;
    }
    match (rendered, asked) {
        (Some(Value::Object(rendered)), Some(Value::Object(asked))) => differences(rendered, asked, &place, places),
        (Some(Value::Array(rendered)), Some(Value::Array(asked))) if rendered.len() == asked.len() => {
            for (index, (rendered, asked)) in rendered.iter().zip(asked).enumerate() {
                difference(Some(rendered), Some(asked), format!("{place}[{index}]"), places);
            }
        }
        _ => places.push(place),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other} is no map"),
        }
    }

    fn key() -> ArtifactKey {
        ArtifactKey::Chart("web".to_owned())
    }

    fn rendering(values: Value) -> Rendering {
        let values = map(values);
        Rendering {
            key: key(),
            source: Digest::of("chart"),
            values_digest: digest(&values),
            namespace: "default".to_owned(),
            kubernetes: Some("v1.34.4".to_owned()),
            values,
            images: vec!["docker.io/library/nginx:1".to_owned()],
        }
    }

    fn refusals(rendering: &Rendering, values: Value) -> Vec<String> {
        let (key, values) = (key(), map(values));
        let asked = Asked {
            key: &key,
            source: Digest::of("chart"),
            values: &values,
            namespace: "default",
            kubernetes: Some("v1.34.4"),
        };
        check(std::slice::from_ref(rendering), &[asked]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_values_that_were_rendered_are_taken_in_whatever_order_they_are_written() {
        let rendered = rendering(json!({"a": {"x": 1, "y": [true, null]}, "b": "z"}));
        let text = r#"{"b":"z","a":{"y":[true,null],"x":1}}"#;
        assert_eq!(refusals(&rendered, serde_json::from_str(text).unwrap()), [""; 0]);
    }

    #[test]
    fn changed_values_are_reported_by_path_and_never_shown() {
        let rendered = rendering(json!({"image": {"tag": "s3cret-1"}, "args": ["a", "b"], "same": 1}));
        let reported =
            refusals(&rendered, json!({"image": {"tag": "s3cret-2"}, "args": ["a", "c"], "same": 1, "more": {}}));
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].contains("args[1], image.tag, more"), "{reported:?}");
        assert!(!reported[0].contains("s3cret"), "{reported:?}");
    }

    #[test]
    fn a_lock_whose_values_were_edited_beside_their_digest_is_not_trusted() {
        let mut rendered = rendering(json!({"tag": "1"}));
        rendered.values = map(json!({"tag": "2"}));
        assert_eq!(refusals(&rendered, json!({"tag": "2"})).len(), 1);
    }

    #[test]
    fn a_different_chart_namespace_or_kubernetes_version_is_each_reported() {
        let (key, values) = (key(), Map::new());
        let asked = Asked {
            key: &key,
            source: Digest::of("another"),
            values: &values,
            namespace: "kube-system",
            kubernetes: Some("v1.35.0"),
        };
        let reported = check(&[rendering(json!({}))], &[asked]);
        assert_eq!(reported.len(), 3, "{reported:?}");
        assert_eq!(check(&[], &[asked])[0].what, Other::NotRendered);
    }

    #[test]
    fn inline_values_lie_over_the_file_key_by_key_and_lists_are_replaced() {
        let file = map(json!({"a": {"x": 1, "y": 2}, "list": [1, 2], "gone": {"deep": 1}}));
        let all = merged(file, &map(json!({"a": {"y": 3}, "list": [9], "gone": null})));
        assert_eq!(Value::Object(all), json!({"a": {"x": 1, "y": 3}, "list": [9], "gone": null}));
    }
}
