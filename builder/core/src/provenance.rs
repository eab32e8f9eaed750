//! What a bundle was built from, as an in-toto statement (v1) with SLSA's provenance (v1). Pure and without a clock: it
//! repeats what the bundle states, in a form that policy engines read. Its signer vouches for it.

use kubexm_spec::Digest;
use serde_json::{Map, Value, json};

use crate::sbom::{Component, Subject, components};

/// `buildType`: resolve, lock, fetch and pack, as `kubexm-bundle build` does. Its parameters are those below.
pub const BUILD_TYPE: &str = "https://kubexm.io/build/bundle/v1";
/// `builder.id`: it proves nothing by itself, trust comes from the signature.
pub const BUILDER: &str = "https://kubexm.io/builder/kubexm-bundle";

/// What the statement says beside the bill of materials.
pub struct Built<'a> {
    /// The same as for a bill of materials.
    pub subject: Subject<'a>,
    /// sha256 over manifest.json and layout.json: names the file's bytes but the signature's.
    pub bundle_id: Digest,
    /// Compressor and level that layout.json names.
    pub encoder: (&'a str, i32),
    /// Files that hold the bundle, by name and digest, where the caller has read them.
    pub files: Vec<(String, Digest)>,
}

/// The statement.
pub fn provenance(built: &Built<'_>) -> Value {
    let manifest = built.subject.manifest;
    let mut subjects = vec![json!({ "name": "manifest.json", "digest": { "sha256": built.subject.digest.hex() } })];
    subjects
        .extend(built.files.iter().map(|(name, digest)| json!({ "name": name, "digest": { "sha256": digest.hex() } })));
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": external(&built.subject),
                "internalParameters": {
                    "encoder": built.encoder.0,
                    "level": built.encoder.1,
                    "lock": { "sha256": manifest.lock.hex() },
                },
                "resolvedDependencies": components(&built.subject).iter().map(dependency).collect::<Vec<_>>(),
            },
            "runDetails": {
                "builder": { "id": BUILDER, "version": version(&manifest.tool) },
                "metadata": { "invocationId": built.bundle_id.to_string() },
            },
        },
    })
}

/// What the user decides: the cluster, the catalogue (overlays included), the zone.
fn external(subject: &Subject<'_>) -> Value {
    let manifest = subject.manifest;
    let mut all = Map::new();
    for (key, member) in [("cluster", "cluster.yaml"), ("catalogue", "catalogue.json")] {
        if let Some(found) = manifest.members.iter().find(|m| m.name == member) {
            all.insert(key.to_owned(), json!({ "name": member, "digest": { "sha256": found.sha256.hex() } }));
        }
    }
    if let Some(sources) = subject.sources {
        all.insert("zone".to_owned(), sources.zone.as_str().into());
    }
    all.insert("platforms".to_owned(), json!(manifest.platforms));
    all.into()
}

/// A resource descriptor (in-toto attestation, `spec/v1/resource_descriptor.md`).
fn dependency(component: &Component<'_>) -> Value {
    let artifact = component.artifact;
    let mut annotations = Map::new();
    annotations.insert("trust".to_owned(), artifact.trust.to_string().into());
    if let Some(platform) = artifact.platform {
        annotations.insert("platform".to_owned(), platform.to_string().into());
    }
    if artifact.manifest.is_some() {
        annotations.insert("tagDigest".to_owned(), artifact.digest.to_string().into());
    }
    if !component.version.is_empty() {
        annotations.insert("version".to_owned(), component.version.into());
    }
    if !component.from.is_empty() {
        annotations.insert("from".to_owned(), json!(component.from));
    }
    let mut descriptor = json!({
        "name": component.id,
        "uri": component.purl,
        "digest": { "sha256": component.digest.hex() },
        "annotations": annotations,
    });
    if let Some(origin) = &component.origin {
        descriptor["downloadLocation"] = origin.as_str().into();
    }
    descriptor
}

/// `kubexm-bundle 0.1.0` as `{"kubexm-bundle": "0.1.0"}`.
fn version(tool: &str) -> Value {
    match tool.split_once(' ') {
        Some((name, version)) => json!({ name: version }),
        None => json!({ tool: "" }),
    }
}
