//! A lock as a file that people review: JSON, one field a line, one descriptor a line, items in their order. The same lock
//! is always the same text, so that a change of one item is one hunk of a diff.

use serde::Serialize;
use serde_json::Value;

use super::{Lock, LockItem, PackageSet, SCHEMA};

/// The order of an item's fields; what is not named here comes behind them by name.
const FIELDS: [&str; 15] = [
    "key",
    "platform",
    "version",
    "trust",
    "type",
    "fileName",
    "reference",
    "digest",
    "size",
    "target",
    "manifest",
    "blobs",
    "referrers",
    "signed",
    "sources",
];

/// Why a text is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another schema, most likely of a newer program.
    #[error(
        "it is of schema {found:?}, and this program reads {SCHEMA}: use the kubexm-bundle that made it, or lock again"
    )]
    Schema {
        /// The schema that it states.
        found: String,
    },
    /// No JSON, or not the fields of a lock.
    #[error("it is not a lock of kubexm-bundle: {0}")]
    Form(#[from] serde_json::Error),
    /// A field that no lock of this schema has: what it says would be lost.
    #[error(
        "it has a field that this program does not know: {path}; use the kubexm-bundle that made it, or lock again"
    )]
    Field {
        /// `/items/3/color`, as JSON pointers are written (RFC 6901).
        path: String,
    },
    /// Merged by hand, perhaps.
    #[error("{item} is in it twice: a merge may have left both sides; take one of them out, or lock again")]
    Twice {
        /// Key and platform.
        item: String,
    },
}

impl Lock {
    /// Reads the text of [`Lock::to_text`], or any JSON of the same fields.
    pub fn parse(text: &[u8]) -> Result<Self, LockError> {
        let value: Value = serde_json::from_slice(text)?;
        if let Some(found) = value.get("schema").and_then(Value::as_str).filter(|found| *found != SCHEMA) {
            return Err(LockError::Schema { found: found.to_owned() });
        }
        let mut lock: Self = serde_json::from_value(value.clone())?;
        if let Some(path) = unknown(&value, &serde_json::to_value(&lock)?) {
            return Err(LockError::Field { path });
        }
        // A program that knows more keys may order them otherwise.
        lock.renderings.sort_by(|a, b| a.key.cmp(&b.key));
        lock.packages.sort_by(|a, b| (&a.os, a.platform).cmp(&(&b.os, b.platform)));
        lock.items.sort_by(|a, b| (&a.key, a.platform).cmp(&(&b.key, b.platform)));
        match lock.twice() {
            None => Ok(lock),
            Some(item) => Err(LockError::Twice { item }),
        }
    }

    /// The text of a lock file, with a line end.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let Self { schema, name, kubernetes, zone, items, renderings, packages } = self;
        let mut lines =
            vec![format!("  \"schema\": {}", one_line(schema)?), format!("  \"name\": {}", one_line(name)?)];
        if let Some(kubernetes) = kubernetes {
            lines.push(format!("  \"kubernetes\": {}", one_line(kubernetes)?));
        }
        if let Some(zone) = zone {
            lines.push(format!("  \"zone\": {}", one_line(zone)?));
        }
        let items = items.iter().map(item_text).collect::<Result<Vec<_>, _>>()?;
        lines.push(format!("  \"items\": {}", list(&items, "  ")));
        if !renderings.is_empty() {
            let renderings = renderings.iter().map(item_text).collect::<Result<Vec<_>, _>>()?;
            lines.push(format!("  \"renderings\": {}", list(&renderings, "  ")));
        }
        if !packages.is_empty() {
            let packages = packages.iter().map(set_text).collect::<Result<Vec<_>, _>>()?;
            lines.push(format!("  \"packages\": {}", list(&packages, "  ")));
        }
        Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
    }
}

impl LockItem {
    /// Key and platform, for people.
    pub fn name(&self) -> String {
        match self.platform {
            Some(platform) => format!("{} {platform}", self.key),
            None => self.key.to_string(),
        }
    }
}

/// The first field of a value that was not understood: what was is written again.
fn unknown(value: &Value, known: &Value) -> Option<String> {
    match (value, known) {
        (Value::Object(fields), Value::Object(known)) => {
            fields.iter().find_map(|(name, value)| match known.get(name) {
                Some(known) => unknown(value, known).map(|rest| format!("/{name}{rest}")),
                None => (!is_empty(value)).then(|| format!("/{name}")),
            })
        }
        (Value::Array(values), Value::Array(known)) => values
            .iter()
            .zip(known)
            .enumerate()
            .find_map(|(index, (value, known))| Some(format!("/{index}{}", unknown(value, known)?))),
        _ => None,
    }
}

/// What says as much as its absence: earlier programs wrote `sources` of items without any, too.
fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

fn item_text(item: &impl Serialize) -> Result<String, serde_json::Error> {
    let Value::Object(mut fields) = serde_json::to_value(item)? else { return one_line(item) };
    let mut ordered: Vec<(String, Value)> =
        FIELDS.iter().filter_map(|name| Some(((*name).to_owned(), fields.remove(*name)?))).collect();
    ordered.extend(fields);
    let mut lines = Vec::new();
    for (name, value) in ordered {
        let text = match &value {
            Value::Array(values) => list(&values.iter().map(one_line).collect::<Result<Vec<_>, _>>()?, "      "),
            other => one_line(other)?,
        };
        lines.push(format!("      {}: {text}", one_line(&name)?));
    }
    Ok(format!("{{\n{}\n    }}", lines.join(",\n")))
}

/// One root, index and reason a line.
fn set_text(set: &PackageSet) -> Result<String, serde_json::Error> {
    let PackageSet { os, platform, roots, indexes, date, because } = set;
    let each = |values: Result<Vec<String>, _>| values.map(|values| list(&values, "      "));
    let because = because
        .iter()
        .map(|(name, why)| Ok(format!("        {}: {}", one_line(name)?, one_line(why)?)))
        .collect::<Result<Vec<_>, serde_json::Error>>()?;
    let lines = [
        format!("      \"os\": {}", one_line(os)?),
        format!("      \"platform\": {}", one_line(platform)?),
        format!("      \"date\": {date}"),
        format!("      \"roots\": {}", each(roots.iter().map(one_line).collect())?),
        format!("      \"indexes\": {}", each(indexes.iter().map(one_line).collect())?),
        format!("      \"because\": {{\n{}\n      }}", because.join(",\n")),
    ];
    Ok(format!("{{\n{}\n    }}", lines.join(",\n")))
}

fn list(values: &[String], indent: &str) -> String {
    if values.is_empty() {
        return "[]".to_owned();
    }
    let lines: Vec<String> = values.iter().map(|value| format!("{indent}  {value}")).collect();
    format!("[\n{}\n{indent}]", lines.join(",\n"))
}

fn one_line(value: &(impl Serialize + ?Sized)) -> Result<String, serde_json::Error> {
    serde_json::to_string(value)
}

#[cfg(test)]
mod tests {
    use super::super::{Content, Descriptor};
    use super::*;
    use crate::{ArtifactKey, Digest, Platform, Program, Trust};

    fn lock() -> Lock {
        let part = |text: &str| Descriptor { media_type: "a/b".into(), digest: Digest::of(text), size: 3 };
        let file = LockItem {
            key: ArtifactKey::Binary(Program::Kubeadm),
            version: "1.34.4".into(),
            platform: Some(Platform::LINUX_AMD64),
            trust: Trust::Pinned,
            sources: vec!["https://mirror.test/kubeadm".into(), "https://dl.k8s.io/kubeadm".into()],
            content: Content::File { file_name: "kubeadm".into(), digest: Digest::of("kubeadm"), size: 7 },
        };
        let image = LockItem {
            key: ArtifactKey::ExtraImage("a.test/b:1".into()),
            version: "1".into(),
            platform: Some(Platform::LINUX_ARM64),
            trust: Trust::OciDigest,
            sources: Vec::new(),
            content: Content::Image {
                reference: "a.test/b:1".into(),
                target: part("index"),
                manifest: part("manifest"),
                blobs: vec![part("config"), part("layer")],
                referrers: Vec::new(),
                signed: None,
            },
        };
        let (name, zone) = ("prod".into(), Some("global".into()));
        Lock {
            schema: SCHEMA.into(),
            name,
            kubernetes: Some("v1.34.4".into()),
            zone,
            items: vec![file, image],
            renderings: Vec::new(),
            packages: Vec::new(),
        }
    }

    #[test]
    fn a_lock_reads_back_from_its_text_and_is_the_same_text_again() {
        let text = lock().to_text().unwrap();
        let read = Lock::parse(text.as_bytes()).unwrap();
        assert_eq!(read, lock());
        assert_eq!(read.to_text().unwrap(), text);
    }

    #[test]
    fn a_reviewer_sees_the_key_first_and_one_field_or_descriptor_a_line() {
        let text = lock().to_text().unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        let at = |start: &str| {
            lines.iter().position(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}\n{text}"))
        };
        assert_eq!(at("\"key\": \"binary/kubeadm\""), at("\"items\"") + 2);
        assert_eq!(at("\"platform\""), at("\"key\"") + 1);
        assert_eq!(at("\"digest\"") + 1, at("\"size\": 7"), "{text}");
        assert_eq!(lines.iter().filter(|line| line.starts_with("{\"digest\":\"sha256:")).count(), 2, "{text}");
    }

    #[test]
    fn what_charts_were_rendered_to_reads_back_and_changes_no_lock_without_charts() {
        assert!(!lock().to_text().unwrap().contains("renderings"));
        let values = serde_json::json!({"image": {"tag": "1"}}).as_object().cloned().unwrap();
        let mut with = lock();
        with.renderings.push(crate::Rendering {
            key: ArtifactKey::Chart("web".into()),
            source: Digest::of("chart"),
            values_digest: crate::rendering::digest(&values),
            namespace: "default".into(),
            kubernetes: None,
            values,
            images: vec!["docker.io/library/a:1".into(), "docker.io/library/b:1".into()],
        });
        let text = with.to_text().unwrap();
        assert_eq!(Lock::parse(text.as_bytes()).unwrap(), with);
        let images = text.lines().filter(|line| line.trim_start().starts_with("\"docker.io/library/")).count();
        assert_eq!(images, 2, "one image a line: {text}");
    }

    #[test]
    fn packages_read_back_one_reason_a_line_and_change_no_lock_without_them() {
        assert!(!lock().to_text().unwrap().contains("packages"));
        let set = |os: &str| PackageSet {
            os: os.to_owned(),
            platform: Platform::LINUX_AMD64,
            roots: vec![crate::lock::PackageRoot {
                name: "chrony".to_owned(),
                role: crate::PackageRole::Time,
                commands: vec!["chronyd".to_owned()],
                packages: vec!["chrony".to_owned()],
                replaces: vec!["systemd-timesyncd".to_owned()],
            }],
            indexes: vec![crate::lock::PackageIndex {
                repository: "main".to_owned(),
                address: "https://d.test/InRelease".to_owned(),
                digest: Digest::of("index"),
                date: Some(7),
                signed: true,
                trust_unsigned: false,
            }],
            date: 7,
            because: [("chrony", "required by chrony"), ("libc6", "chrony Depends libc6 (>= 2.36)")]
                .map(|(name, why)| (name.to_owned(), why.to_owned()))
                .into(),
        };
        let mut with = lock();
        with.packages = vec![set("debian-12"), set("debian-13")];
        let text = with.to_text().unwrap();
        assert_eq!(Lock::parse(text.as_bytes()).unwrap(), with);
        assert!(text.lines().any(|line| line.trim() == "\"libc6\": \"chrony Depends libc6 (>= 2.36)\""), "{text}");
        with.packages[1].os = "debian-12".to_owned();
        let error = Lock::parse(with.to_text().unwrap().as_bytes()).unwrap_err().to_string();
        assert!(error.contains("packages of debian-12 linux/amd64"), "{error}");
        let strange = text.replacen("\"date\": 7", "\"date\": 7, \"color\": 1", 1);
        assert!(Lock::parse(strange.as_bytes()).unwrap_err().to_string().contains("color"));
    }

    #[test]
    fn what_is_no_lock_of_this_program_is_refused_by_name() {
        let text = lock().to_text().unwrap();
        let newer = text.replace("lock/v1", "lock/v2");
        assert!(Lock::parse(newer.as_bytes()).unwrap_err().to_string().contains("kubexm.io/lock/v2"));
        assert!(Lock::parse(b"{}").unwrap_err().to_string().contains("schema"));
        assert!(Lock::parse(b"items: []").is_err());
    }

    #[test]
    fn a_field_that_would_be_lost_is_refused_with_its_place() {
        let text = lock().to_text().unwrap().replacen("\"version\"", "\"color\": \"red\", \"version\"", 1);
        let error = Lock::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("/items/0/color"), "{error}");
    }

    #[test]
    fn an_item_or_a_rendering_that_a_merge_left_twice_is_refused() {
        let mut twice = lock();
        twice.items.insert(0, twice.items[0].clone());
        let error = Lock::parse(twice.to_text().unwrap().as_bytes()).unwrap_err().to_string();
        assert!(error.contains("binary/kubeadm linux/amd64"), "{error}");
        let rendering = crate::Rendering {
            key: ArtifactKey::Chart("web".into()),
            source: Digest::of("chart"),
            values_digest: crate::rendering::digest(&serde_json::Map::new()),
            namespace: "default".into(),
            kubernetes: None,
            values: serde_json::Map::new(),
            images: Vec::new(),
        };
        let twice = Lock { renderings: vec![rendering.clone(), rendering], ..lock() };
        let error = Lock::parse(twice.to_text().unwrap().as_bytes()).unwrap_err().to_string();
        assert!(error.contains("the rendering of chart/web"), "{error}");
    }
}
