//! SPDX 2.3, JSON.

use kubexm_spec::{Digest, Kind};
use serde_json::{Value, json};

use super::{Component, Subject, components};

/// SPDX wants a time and a bundle has none: the one that its members have in the archive.
const NO_TIME: &str = "1970-01-01T00:00:00Z";

const DOCUMENT: &str = "SPDXRef-DOCUMENT";
const BUNDLE: &str = "SPDXRef-Bundle";
const UNKNOWN: &str = "NOASSERTION";

/// The document.
pub fn spdx(subject: &Subject<'_>) -> Value {
    let manifest = subject.manifest;
    let name = if manifest.name.is_empty() { "bundle" } else { &manifest.name };
    let all = components(subject);
    let mut bundle = json!({
        "SPDXID": BUNDLE,
        "name": name,
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": false,
        "checksums": [checksum(&subject.digest)],
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": UNKNOWN,
        "copyrightText": UNKNOWN,
        "primaryPackagePurpose": "ARCHIVE",
        "comment": "the checksum is that of manifest.json, which names every byte of the bundle",
    });
    if let Some(cluster) = &manifest.cluster {
        bundle["versionInfo"] = cluster.kubernetes.clone().into();
    }
    let mut packages = vec![bundle];
    packages.extend(all.iter().map(package));
    let mut relationships = vec![relationship(DOCUMENT, "DESCRIBES", BUNDLE)];
    relationships.extend(all.iter().map(|component| relationship(BUNDLE, "CONTAINS", &id(component))));
    let (tool, version) = subject.tool;
    json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": DOCUMENT,
        "name": name,
        "documentNamespace": format!("https://kubexm.io/spdx/{}", subject.digest.hex()),
        "creationInfo": {
            "created": NO_TIME,
            "creators": [format!("Tool: {tool}-{version}")],
            "comment": "The same bundle gives the same document: the time is not that of its creation.",
        },
        "packages": packages,
        "relationships": relationships,
    })
}

fn package(component: &Component<'_>) -> Value {
    let artifact = component.artifact;
    let download = match (artifact.key.kind(), &component.origin) {
        // SPDX knows no address of an image; its purl is one.
        (Kind::Image, _) | (_, None) => UNKNOWN,
        (_, Some(origin)) => origin,
    };
    let mut package = json!({
        "SPDXID": id(component),
        "name": component.name,
        "downloadLocation": download,
        "filesAnalyzed": false,
        "checksums": [checksum(&component.digest)],
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": component.licence.unwrap_or(UNKNOWN),
        "copyrightText": UNKNOWN,
        "primaryPackagePurpose": purpose(artifact.key.kind()),
        "comment": comment(component),
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": component.purl,
        }],
    });
    if !component.version.is_empty() {
        package["versionInfo"] = component.version.into();
    }
    if artifact.key.kind() != Kind::Image {
        package["packageFileName"] = artifact.name.as_str().into();
    }
    package
}

fn comment(component: &Component<'_>) -> String {
    let from = match component.from {
        [] => String::new(),
        places => format!("; fetched from: {}", places.join(" ")),
    };
    format!("{}; digest trusted because: {}{from}", component.id, component.artifact.trust)
}

fn relationship(from: &str, kind: &str, to: &str) -> Value {
    json!({ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to })
}

fn checksum(digest: &Digest) -> Value {
    json!({ "algorithm": "SHA256", "checksumValue": digest.hex() })
}

/// Letters, digits, `.` and `-` only, so a digest over the whole id keeps names distinct.
fn id(component: &Component<'_>) -> String {
    let name: String = component.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("SPDXRef-{name}-{}", Digest::of(component.id.as_bytes()).short())
}

const fn purpose(kind: Kind) -> &'static str {
    match kind {
        Kind::Binary | Kind::Installer => "APPLICATION",
        Kind::Image => "CONTAINER",
        Kind::File | Kind::Chart | Kind::Yaml | Kind::Material | Kind::Package => "FILE",
    }
}
