//! Releases as helm keeps them in a cluster: for each revision a Secret of type `helm.sh/release.v1` with labels to find it by,
//! and the release itself as JSON, compressed and in base64 twice (helm 3 and 4, pkg/storage/driver).

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use kubexm_spec::json::memory_of;
use serde_json::{Map, Value};

use crate::documents::{self, Room, Unreadable};
use crate::objects::{Identity, MOST_BARE, flattened, flattened_within};

/// The most bytes of a release's JSON, and of the memory that it takes. A Secret has at most 1 MiB, and whoever may make one in any namespace
/// can have it looked like a release.
const LIMIT: u64 = 32 << 20;
const MEMORY_LIMIT: usize = 128 << 20;
/// Of the texts and keys of its objects, and of its hooks.
const TEXTS_LIMIT: usize = 32 << 20;
const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];

/// A revision that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{secret} is not as helm keeps a release: {problem}")]
pub struct NotARelease {
    /// Name of the Secret.
    pub secret: String,
    pub problem: String,
}

/// One revision of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    secret: Value,
}

/// A revision with its content.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    secret: Value,
    release: Value,
}

/// A hook of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// The object that it is.
    pub object: Value,
    /// How its last run ended: `Succeeded`, `Failed`, `Running`, `Unknown`; empty if it did not run.
    pub phase: String,
}

/// The longest word for how a hook's run ended, in bytes.
const PHASE: usize = 32;

/// The longest name and the longest version of a chart, in bytes: helm takes names of 250, and both are in the name of a file. Whoever may make
/// a Secret that looks like a release can have megabytes there, which many releases would bring into one answer.
const OF_A_CHART: usize = 255;

/// Whether `helm test` alone runs a hook, by the events that helm has read when it made the release.
fn only_tests(hook: &Value) -> bool {
    let events = hook["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    !events.is_empty() && events.iter().all(|event| event == "test")
}

/// The revisions in a list of Secrets, the oldest first.
pub fn revisions(mut list: Value) -> Vec<Revision> {
    let Some(Value::Array(items)) = list.get_mut("items").map(Value::take) else { return Vec::new() };
    let mut all: Vec<Revision> = items.into_iter().map(Revision::of).collect();
    all.retain(|revision| revision.number() > 0);
    all.sort_by_key(Revision::number);
    all
}

impl Revision {
    /// Of its Secret.
    pub const fn of(secret: Value) -> Self {
        Self { secret }
    }

    /// From 1; 0 for what is no revision.
    pub fn number(&self) -> u32 {
        self.label("version").parse().unwrap_or(0)
    }

    /// `deployed`, `failed`, `pending-install`, `superseded` …
    pub fn status(&self) -> &str {
        self.label("status")
    }

    /// A label of the Secret; empty if it has none.
    pub fn label(&self, name: &str) -> &str {
        self.secret["metadata"]["labels"][name].as_str().unwrap_or_default()
    }

    /// An annotation of the Secret; empty if it has none.
    pub fn annotation(&self, name: &str) -> &str {
        self.secret["metadata"]["annotations"][name].as_str().unwrap_or_default()
    }

    /// The namespace that its Secret is in.
    pub fn namespace(&self) -> &str {
        self.secret["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    /// The Secret, as the API server has it.
    pub const fn secret(&self) -> &Value {
        &self.secret
    }

    /// Name of the Secret.
    pub fn secret_name(&self) -> &str {
        self.secret["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Decodes its content.
    pub fn read(&self) -> Result<Release, NotARelease> {
        let wrong = |problem: String| NotARelease { secret: self.secret_name().to_owned(), problem };
        let data = self.secret["data"]["release"].as_str().ok_or_else(|| wrong("it has no release".to_owned()))?;
        let text = STANDARD.decode(data).map_err(|error| wrong(error.to_string()))?;
        let packed = STANDARD.decode(text).map_err(|error| wrong(error.to_string()))?;
        let json = if packed.starts_with(&GZIP) {
            let mut json = Vec::new();
            let read = GzDecoder::new(packed.as_slice()).take(LIMIT + 1).read_to_end(&mut json);
            read.map_err(|error| wrong(error.to_string()))?;
            json
        } else {
            packed
        };
        if json.len() as u64 > LIMIT {
            return Err(wrong(format!("it has more than {LIMIT} bytes")));
        }
        if memory_of(&json) > MEMORY_LIMIT {
            return Err(wrong(format!("its values take more than {} MiB of memory", MEMORY_LIMIT >> 20)));
        }
        let release: Value = serde_json::from_slice(&json).map_err(|error| wrong(error.to_string()))?;
        // What is made of it has other fields, which only an object can have.
        if !release.is_object() {
            return Err(wrong("it is no object".to_owned()));
        }
        Ok(Release { secret: self.secret.clone(), release })
    }
}

impl Release {
    /// `web-1.2.3`, on one line and no longer than charts have it.
    pub fn chart(&self) -> String {
        let metadata = &self.release["chart"]["metadata"];
        let text = |name: &str| {
            let whole = metadata[name].as_str().unwrap_or_default();
            let begin = &whole[..whole.floor_char_boundary(OF_A_CHART)];
            kubexm_spec::on_one_line(begin) + if begin.len() < whole.len() { "…" } else { "" }
        };
        format!("{}-{}", text("name"), text("version"))
    }

    /// The values that it was installed with, without the chart's own.
    pub fn values(&self) -> Map<String, Value> {
        self.release["config"].as_object().cloned().unwrap_or_default()
    }

    /// What helm says of it.
    pub fn description(&self) -> &str {
        self.release["info"]["description"].as_str().unwrap_or_default()
    }

    /// Its objects as one stream, without hooks and without the CRDs that lie beside the templates.
    pub fn manifest(&self) -> &str {
        self.release["manifest"].as_str().unwrap_or_default()
    }

    /// Its objects, read.
    pub fn objects(&self) -> Result<Vec<Value>, Unreadable> {
        documents::read_within(self.manifest(), &mut Room::of(TEXTS_LIMIT).as_it_is()).map(flattened)
    }

    /// Refuses what helm and Kubernetes have made other objects or hooks of than [`Self::objects`] and [`Self::hooks`] are.
    pub fn check(&self) -> Result<(), Unreadable> {
        documents::read_within(self.manifest(), &mut Room::of(TEXTS_LIMIT))?;
        let mut room = Room::of(TEXTS_LIMIT);
        self.hook_texts().try_for_each(|(text, _)| documents::read_within(text, &mut room).map(drop))
    }

    /// Every document that an install has made, as it was written: of the manifest, and of hooks that are not of tests alone. To look for images in:
    /// of what [`flattened`] leaves out Kubernetes may make objects.
    pub fn documents(&self) -> Result<Vec<Value>, Unreadable> {
        let mut room = Room::of(TEXTS_LIMIT).as_it_is();
        let mut all = documents::read_within(self.manifest(), &mut room)?;
        for (text, _) in self.hook_texts().filter(|(_, hook)| !only_tests(hook)) {
            all.extend(documents::read_within(text, &mut room)?);
        }
        Ok(all)
    }

    /// Its hooks, in their order.
    pub fn hooks(&self) -> Result<Vec<Hook>, Unreadable> {
        let (mut all, mut room, mut left) = (Vec::new(), Room::of(TEXTS_LIMIT).as_it_is(), MOST_BARE);
        for (text, hook) in self.hook_texts() {
            // A word of helm's own: each of its objects gets it.
            let phase = hook["last_run"]["phase"].as_str().filter(|phase| phase.len() <= PHASE).unwrap_or_default();
            let objects = flattened_within(documents::read_within(text, &mut room)?, &mut left);
            all.extend(objects.into_iter().map(|object| Hook { object, phase: phase.to_owned() }));
        }
        Ok(all)
    }

    /// Each hook with its YAML.
    fn hook_texts(&self) -> impl Iterator<Item = (&str, &Value)> {
        let hooks = self.release["hooks"].as_array().into_iter().flatten();
        hooks.map(|hook| (hook["manifest"].as_str().unwrap_or_default(), hook))
    }

    /// Its Secret as it would be if the chart had never made some of its objects: helm then leaves them alone.
    pub fn without(&self, gone: impl Fn(&Identity) -> bool) -> Result<Value, NotARelease> {
        let secret_name = self.secret["metadata"]["name"].as_str().unwrap_or_default();
        let wrong = |problem: String| NotARelease { secret: secret_name.to_owned(), problem };
        let objects =
            self.objects().map_err(|unreadable| wrong(format!("{}: {}", unreadable.place, unreadable.problem)))?;
        let stay = objects.iter().filter(|object| !gone(&Identity::of(object)));
        // JSON is YAML.
        let manifest: String = stay.map(|object| format!("---\n{object}\n")).collect();
        let mut release = self.release.clone();
        release["manifest"] = manifest.into();
        let mut secret = self.secret.clone();
        // The items of a list have neither.
        secret["apiVersion"] = "v1".into();
        secret["kind"] = "Secret".into();
        secret["data"]["release"] = encode(&release).map_err(|error| wrong(error.to_string()))?.into();
        Ok(secret)
    }
}

/// A release as the data of its Secret.
pub fn encode(release: &Value) -> std::io::Result<String> {
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(release.to_string().as_bytes())?;
    Ok(STANDARD.encode(STANDARD.encode(gzip.finish()?)))
}

/// Values in a form in which equal ones are equal however helm has written them: without nulls, whole numbers as such.
pub fn comparable(values: &Map<String, Value>) -> Map<String, Value> {
    let pairs = values.iter().filter(|(_, value)| !value.is_null());
    pairs.map(|(name, value)| (name.clone(), comparable_value(value))).collect()
}

fn comparable_value(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(comparable(map)),
        Value::Array(all) => Value::Array(all.iter().map(comparable_value).collect()),
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), whole),
        other => other.clone(),
    }
}

/// 2^53: above it a float has no unit place.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn whole(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < EXACT { Value::from(number as i64) } else { Value::from(number) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(number: u32, status: &str, release: &Value) -> Value {
        json!({
            "kind": "Secret",
            "metadata": {
                "name": format!("sh.helm.release.v1.web.v{number}"),
                "labels": {"owner": "helm", "name": "web", "status": status, "version": number.to_string(), "kubexm.io/chart": "abc"},
            },
            "type": "helm.sh/release.v1",
            "data": {"release": encode(release).unwrap()},
        })
    }

    fn release() -> Value {
        json!({
            "name": "web",
            "info": {"status": "deployed", "description": "Install complete"},
            "chart": {"metadata": {"name": "web", "version": "1.2.3"}},
            "config": {"replicas": 2},
            "manifest": "---\n# Source: web/templates/a.yaml\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n",
            "hooks": [
                {"manifest": "kind: Job\nmetadata: {name: check}\n", "events": ["test", "pre-install"], "last_run": {"phase": "Failed"}},
                {"manifest": "kind: Pod\nmetadata: {name: try}\n", "events": ["test"]},
            ],
        })
    }

    #[test]
    fn revisions_are_read_in_the_order_of_their_numbers() {
        let list = json!({"items": [secret(10, "deployed", &release()), secret(9, "superseded", &json!({})), {"metadata": {"name": "other"}}]});
        let all = revisions(list);
        assert_eq!(all.iter().map(Revision::number).collect::<Vec<_>>(), [9, 10]);
        assert_eq!((all[1].status(), all[1].label("kubexm.io/chart"), all[1].annotation("a")), ("deployed", "abc", ""));
        let read = all[1].read().unwrap();
        assert_eq!((read.chart(), read.description()), ("web-1.2.3".to_owned(), "Install complete"));
        assert_eq!(Value::Object(read.values()), json!({"replicas": 2}));
        assert_eq!(read.objects().unwrap().len(), 2);
        let hooks = read.hooks().unwrap();
        assert_eq!(hooks.iter().map(|hook| hook.phase.as_str()).collect::<Vec<_>>(), ["Failed", ""]);
        let mut long = release();
        long["hooks"][0]["last_run"]["phase"] = "A".repeat(1 << 20).into();
        let long = revisions(json!({"items": [secret(1, "deployed", &long)]}))[0].read().unwrap().hooks().unwrap();
        assert!(long.iter().all(|hook| hook.phase.is_empty()));
        // Not what `helm test` alone runs.
        let names = read.documents().unwrap().into_iter().map(|document| document["metadata"]["name"].clone());
        assert_eq!(names.collect::<Vec<_>>(), ["a", "data", "check"]);
    }

    #[test]
    fn the_name_of_a_chart_is_one_line_and_no_longer_than_a_chart_has_it() {
        let mut long = release();
        long["chart"]["metadata"] = json!({"name": "ä".repeat(1 << 20), "version": "1\u{1b}[2J\n\u{202e}2"});
        let read = revisions(json!({"items": [secret(1, "deployed", &long)]}))[0].read().unwrap();
        let chart = read.chart();
        assert!(chart.len() < 600 && chart.starts_with("ää") && chart.contains('…'), "{} bytes", chart.len());
        assert!(!chart.contains(|c: char| c.is_control() || c == '\u{202e}'), "{chart:?}");
    }

    #[test]
    fn a_release_without_some_of_its_objects_is_the_same_in_everything_else() {
        let all = revisions(json!({"items": [secret(1, "deployed", &release())]}));
        let secret = all[0].read().unwrap().without(Identity::is_kept).unwrap();
        let left = revisions(json!({"items": [secret]}))[0].read().unwrap();
        assert_eq!(left.objects().unwrap(), [json!({"kind": "ConfigMap", "metadata": {"name": "a"}})]);
        assert_eq!(
            (left.chart(), left.values(), left.hooks().unwrap().len()),
            ("web-1.2.3".to_owned(), all[0].read().unwrap().values(), 2)
        );
    }

    #[test]
    fn one_that_others_read_otherwise_can_be_looked_at_and_is_told() {
        let of = |release: &Value| revisions(json!({"items": [secret(1, "deployed", release)]}))[0].read().unwrap();
        assert_eq!(of(&release()).check(), Ok(()));
        let merged = "kind: Job\nmetadata: {name: a, <<: {name: b}}\n";
        for place in ["manifest", "hooks"] {
            let mut other = release();
            other[place] = if place == "hooks" { json!([{"manifest": merged}]) } else { merged.into() };
            let other = of(&other);
            assert!(other.objects().is_ok() && other.hooks().is_ok(), "{place}");
            assert!(other.check().unwrap_err().problem.contains("merge key"), "{place}");
        }
    }

    #[test]
    fn what_is_no_release_is_named_and_a_bomb_is_not_unpacked() {
        let mut bad = secret(1, "deployed", &release());
        bad["data"]["release"] = "bm8gcmVsZWFzZQ==".into();
        let error = revisions(json!({"items": [bad]}))[0].read().unwrap_err();
        assert!(error.to_string().starts_with("sh.helm.release.v1.web.v1"), "{error}");
        let zeros = Value::String(" ".repeat(usize::try_from(LIMIT).unwrap() + 1));
        let error = revisions(json!({"items": [secret(1, "deployed", &zeros)]}))[0].read().unwrap_err();
        assert!(error.problem.contains("more than"), "{error}");
        for other in [json!(-1), json!([release()]), Value::Null] {
            let error = revisions(json!({"items": [secret(1, "deployed", &other)]}))[0].read().unwrap_err();
            assert_eq!(error.problem, "it is no object");
        }
        // 6 bytes of text each, and 650 of memory.
        let maps = json!({"name": "x", "chart": vec![json!({"": 0}); 200_000]});
        let error = revisions(json!({"items": [secret(1, "deployed", &maps)]}))[0].read().unwrap_err();
        assert!(error.problem.contains("128 MiB of memory"), "{error}");
    }

    #[test]
    fn values_are_compared_as_helm_writes_them() {
        let of = |value: Value| Value::Object(comparable(value.as_object().unwrap()));
        assert_eq!(of(json!({"a": 1.0, "b": null, "c": [{"d": null, "e": 2}]})), json!({"a": 1, "c": [{"e": 2}]}));
        assert_eq!(of(json!({"a": 1.5, "b": "1"})), json!({"a": 1.5, "b": "1"}));
        assert_eq!(of(json!({"a": 1_000_000})), of(json!({"a": 1e6})));
    }
}
