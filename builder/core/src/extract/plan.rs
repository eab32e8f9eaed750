//! Which files items become. Nothing is written here.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use kubexm_archive::{Bundle, DOCUMENT_LIMIT, members};
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{Digest, Kind, json as json_text, names};
use serde_json::{Value, json};

use super::{ExtractError, Item};
use crate::pack;

/// What the values of a document may take as memory, in bytes.
const MEMORY_LIMIT: usize = 512 << 20;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Files by path below the folder. Where an order matters, `index.json` of a layout comes last.
pub type Plan = BTreeMap<PathBuf, Output>;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// What is in it.
    pub content: Content,
    /// A program: made executable where it is one by its first bytes.
    pub program: bool,
}

/// Where the bytes come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A member.
    Member(String),
    /// Made for the layout.
    Made(Vec<u8>),
}

/// Every member unchanged: a plain OCI image layout with the bundle's own files beside it. Of a delta, those that it or
/// its bases have.
pub fn members(bundle: &Bundle) -> Plan {
    let beside = [members::MANIFEST, members::SIGNATURE, members::LAYOUT, members::SOURCES];
    let all = beside.into_iter().chain(bundle.manifest().members.iter().map(|member| member.name.as_str()));
    all.filter(|name| bundle.find(name).is_some()).map(|name| (name.into(), Output::member(name))).collect()
}

/// Refuses a file that [`separate`] would write under a hidden name or a path, where the item that found it is not its key: a digest
/// may have been copied from the bundle's own list.
pub fn check_asked(item: &str, found: &[Item<'_>]) -> Result<(), ExtractError> {
    for one in found {
        let Item::File(artifact) = one else { continue };
        let (key, name) = (artifact.key.to_string(), artifact.name.clone());
        // Any other name that is not plain is refused whatever was typed.
        if artifact.key.name() == artifact.name && key != item && file_name(&name).is_err() {
            return Err(ExtractError::NotAskedFor { item: item.to_owned(), key, name });
        }
    }
    Ok(())
}

/// A file under its own name, an image as a layout in a folder of its own.
pub fn separate(bundle: &Bundle, items: &[Item<'_>]) -> Result<Plan, ExtractError> {
    let mut plan = Plan::new();
    for item in items {
        match item {
            Item::File(artifact) => {
                let program = matches!(artifact.key.kind(), Kind::Binary | Kind::Installer);
                let content = Content::Member(members::blob_name(&artifact.digest));
                add(&mut plan, path_of(artifact)?, Output { content, program })?;
            }
            Item::Image { artifacts, .. } => {
                let reference = artifacts.first().map_or("", |artifact| artifact.name.as_str());
                let folder = file_name(&reference.replace(['/', ':', '@'], "_"))?;
                for (path, output) in single_layout(bundle, std::slice::from_ref(item))? {
                    add(&mut plan, folder.join(path), output)?;
                }
            }
            Item::Member(name) => {
                let path = file_name(name.rsplit('/').next().unwrap_or(name))?;
                add(&mut plan, path, Output::member(name))?;
            }
        }
    }
    Ok(plan)
}

/// All items in one layout: images, and files as the OCI artifacts that they are in the bundle.
pub fn single_layout(bundle: &Bundle, items: &[Item<'_>]) -> Result<Plan, ExtractError> {
    let mut plan = Plan::new();
    let mut entries: BTreeMap<String, Value> = BTreeMap::new();
    for item in items {
        let (name, entry, blobs) = match item {
            Item::File(artifact) => wrapped(bundle, artifact)?,
            Item::Image { artifacts, single } => image(bundle, artifacts, *single)?,
            Item::Member(name) => {
                let what = "a member that index.json does not name: it can be extracted as a file only";
                return Err(ExtractError::WrongKind { item: name.clone(), what });
            }
        };
        for digest in blobs {
            let name = members::blob_name(&digest);
            plan.insert(name.clone().into(), Output::member(&name));
        }
        if entries.insert(name.clone(), entry.clone()).is_some_and(|other| other != entry) {
            return Err(ExtractError::Clash { path: name.into() });
        }
    }
    let entries: Vec<Value> = entries.into_values().collect();
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries });
    plan.insert("index.json".into(), Output { content: Content::Made(index.to_string().into_bytes()), program: false });
    plan.insert(
        "oci-layout".into(),
        Output { content: Content::Made(br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()), program: false },
    );
    Ok(plan)
}

type Entry = (String, Value, Vec<Digest>);

/// An image's entry of index.json and its blobs.
fn image(bundle: &Bundle, artifacts: &[&Artifact], single: bool) -> Result<Entry, ExtractError> {
    let Some(first) = artifacts.first() else {
        return Err(ExtractError::Document {
            member: "manifest.json".into(),
            reason: "an image without a platform".into(),
        });
    };
    let named = json!({ names::REF_NAME: first.name });
    let mut blobs: Vec<Digest> = artifacts.iter().flat_map(|a| a.blobs.iter().map(|blob| blob.digest)).collect();
    let target = match first.manifest.filter(|_| single) {
        Some(manifest) => {
            blobs.retain(|digest| *digest != first.digest || *digest == manifest);
            manifest
        }
        None => first.digest,
    };
    let (media_type, size) = media_type(bundle, &target)?;
    let mut entry = json!({ "mediaType": media_type, "digest": target, "size": size, "annotations": named });
    if let Some(platform) = first.platform.filter(|_| single) {
        entry["platform"] = json!({ "os": platform.os(), "architecture": platform.arch.as_str() });
    }
    Ok((first.name.clone(), entry, blobs))
}

/// What an OCI document calls itself, and its size. OCI lets a document leave its type out.
fn media_type(bundle: &Bundle, digest: &Digest) -> Result<(String, usize), ExtractError> {
    let member = members::blob_name(digest);
    let bytes = bundle.read(&member, DOCUMENT_LIMIT)?;
    let document = value(&bytes).map_err(|reason| ExtractError::Document { member, reason })?;
    let media_type = match document.get("mediaType").and_then(Value::as_str) {
        Some(media_type) => media_type,
        None if document.get("manifests").is_some() => INDEX,
        None => MANIFEST,
    };
    Ok((media_type.to_owned(), bytes.len()))
}

/// The entry of the bundle's index.json for a file, the artifact manifest it names, and what that names.
fn wrapped(bundle: &Bundle, artifact: &Artifact) -> Result<Entry, ExtractError> {
    let index = document(bundle, "index.json")?;
    let name = pack::ref_name(&artifact.key, &artifact.version, artifact.platform, &artifact.name);
    let is_it =
        |entry: &&Value| entry.get("annotations").and_then(|a| a.get(names::REF_NAME)) == Some(&name.clone().into());
    let entry = index.get("manifests").and_then(Value::as_array).into_iter().flatten().find(is_it);
    let digest_of = |value: &Value| value.get("digest").and_then(Value::as_str).and_then(|text| text.parse().ok());
    let Some((entry, manifest)) = entry.and_then(|entry| Some((entry, digest_of(entry)?))) else {
        let reason = format!("it does not name {name}");
        return Err(ExtractError::Document { member: "index.json".into(), reason });
    };
    let wrapper = document(bundle, &members::blob_name(&manifest))?;
    let layers = wrapper.get("layers").and_then(Value::as_array).into_iter().flatten();
    let mut blobs: Vec<Digest> = layers.filter_map(digest_of).collect();
    // Whichever way a file is taken out, it is the one that the manifest lists.
    if blobs != [artifact.digest] {
        let reason = format!("its {name} is another file than the manifest lists: do not trust this bundle");
        return Err(ExtractError::Document { member: "index.json".into(), reason });
    }
    blobs.extend(wrapper.get("config").and_then(digest_of));
    blobs.push(manifest);
    Ok((name, entry.clone(), blobs))
}

fn document(bundle: &Bundle, member: &str) -> Result<Value, ExtractError> {
    let bytes = bundle.read(member, DOCUMENT_LIMIT)?;
    value(&bytes).map_err(|reason| ExtractError::Document { member: member.to_owned(), reason })
}

/// A document of a bundle that nobody may have signed.
fn value(bytes: &[u8]) -> Result<Value, String> {
    match json_text::memory_of(bytes) > MEMORY_LIMIT {
        true => Err(format!("its values take more than {} MiB of memory", MEMORY_LIMIT >> 20)),
        false => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
    }
}

impl Output {
    fn member(name: &str) -> Self {
        Self { content: Content::Member(name.to_owned()), program: false }
    }
}

fn add(plan: &mut Plan, path: PathBuf, output: Output) -> Result<(), ExtractError> {
    match plan.insert(path.clone(), output.clone()) {
        Some(other) if other.content != output.content => Err(ExtractError::Clash { path }),
        _ => Ok(()),
    }
}

/// A file under its name, a material under the path that cluster.yaml has for it: beside a cluster.yaml that was taken out, it is found.
/// Only a name that is the key's own, which somebody asked for, may be hidden or a path.
fn path_of(artifact: &Artifact) -> Result<PathBuf, ExtractError> {
    let (name, is_keys) = (artifact.name.as_str(), artifact.key.name() == artifact.name);
    match artifact.key.kind() {
        Kind::Material if is_keys => name.split('/').map(one_part).collect(),
        Kind::Material => Err(ExtractError::UnsafeName { name: name.to_owned() }),
        _ if is_keys => one_part(name),
        _ => file_name(name),
    }
}

/// The name that a manifest gives a file, if it is one that nobody has to ask for: a hidden file has a meaning where it arrives
/// (`.bash_profile`).
fn file_name(name: &str) -> Result<PathBuf, ExtractError> {
    match name.starts_with('.') {
        true => Err(ExtractError::UnsafeName { name: name.to_owned() }),
        false => one_part(name),
    }
}

/// A single part that leads nowhere.
fn one_part(name: &str) -> Result<PathBuf, ExtractError> {
    let mut parts = Path::new(name).components();
    let one = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
    if one && name.len() <= 255 && !name.contains(char::is_control) {
        return Ok(name.into());
    }
    Err(ExtractError::UnsafeName { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_single_file_is_refused() {
        assert_eq!(file_name("kubeadm").unwrap(), Path::new("kubeadm"));
        for bad in ["../x", "/etc/passwd", "a/b", "..", ".", "", "a\0b", "a\nb", "a/", "./a", &"x".repeat(256)] {
            assert!(file_name(bad).is_err() && one_part(bad).is_err(), "{bad:?}");
        }
        assert!(file_name(".env").is_err() && one_part(".env").is_ok());
    }

    #[test]
    fn a_document_of_a_bundle_whose_values_would_fill_the_memory_is_not_parsed() {
        assert_eq!(value(b"[{}]"), Ok(json!([{}])));
        let error = value(format!("[{}{{}}]", "{},".repeat(1_000_000)).as_bytes()).unwrap_err();
        assert_eq!(error, "its values take more than 512 MiB of memory");
    }
}
