//! CycloneDX 1.6, JSON (ECMA-424).

use kubexm_spec::Kind;
use serde_json::{Map, Value, json};

use super::{Component, Subject, components, uuid};

/// The document. It has no time: the format does not ask for one.
pub fn cyclonedx(subject: &Subject<'_>) -> Value {
    let manifest = subject.manifest;
    let all = components(subject);
    let root = format!("bundle:{}", subject.digest);
    let mut bundle = json!({
        "type": "application",
        "bom-ref": root,
        "name": if manifest.name.is_empty() { "bundle" } else { &manifest.name },
        "hashes": [{ "alg": "SHA-256", "content": subject.digest.hex() }],
        "properties": [
            property("kubexm:hashes", "of manifest.json, which names every byte of the bundle"),
            property("kubexm:lock", &manifest.lock.to_string()),
            property("kubexm:tool", &manifest.tool),
        ],
    });
    if let (Some(sources), Some(properties)) = (subject.sources, bundle["properties"].as_array_mut()) {
        properties.push(property("kubexm:zone", &sources.zone));
    }
    if let Some(cluster) = &manifest.cluster {
        bundle["version"] = cluster.kubernetes.clone().into();
    }
    let (tool, version) = subject.tool;
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": format!("urn:uuid:{}", uuid(&subject.digest)),
        "version": 1,
        "metadata": {
            "tools": { "components": [{ "type": "application", "name": tool, "version": version }] },
            "component": bundle,
        },
        "components": all.iter().map(entry).collect::<Vec<_>>(),
        "dependencies": [{ "ref": root, "dependsOn": all.iter().map(|component| component.id.as_str()).collect::<Vec<_>>() }],
        // No component is missing; which one needs which is not reported.
        "compositions": [{ "aggregate": "complete", "assemblies": [root] }],
    })
}

fn entry(component: &Component<'_>) -> Value {
    let artifact = component.artifact;
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
    put("type", kind(artifact.key.kind()).into());
    put("bom-ref", component.id.as_str().into());
    put("name", component.name.as_ref().into());
    if !component.version.is_empty() {
        put("version", component.version.into());
    }
    put("hashes", json!([{ "alg": "SHA-256", "content": component.digest.hex() }]));
    if let Some(licence) = component.licence {
        let is_id = spdx::license_id(licence).is_some_and(|known| known.name == licence);
        put(
            "licenses",
            match is_id {
                true => json!([{ "license": { "id": licence, "acknowledgement": "declared" } }]),
                false => json!([{ "expression": licence, "acknowledgement": "declared" }]),
            },
        );
    }
    put("purl", component.purl.as_str().into());
    if let Some(origin) = &component.origin {
        put("externalReferences", json!([{ "type": "distribution", "url": origin }]));
    }
    let mut properties = vec![property("kubexm:key", &artifact.key.to_string())];
    properties.extend(artifact.platform.map(|platform| property("kubexm:platform", &platform.to_string())));
    properties.push(property("kubexm:size", &artifact.size().to_string()));
    properties.extend(component.from.iter().map(|from| property("kubexm:from", from)));
    properties.push(property("kubexm:trust", &artifact.trust.to_string()));
    put("properties", properties.into());
    entry.into()
}

fn property(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}

const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Binary | Kind::Installer => "application",
        Kind::Image => "container",
        Kind::File | Kind::Chart | Kind::Yaml | Kind::Material | Kind::Package => "file",
    }
}
