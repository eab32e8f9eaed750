use serde_json::Value;

use super::*;
use crate::oci::referrer;

fn layer(name: &str, content: &str) -> Layer {
    Layer { name: name.to_owned(), digest: Digest::of(content), size: content.len() as u64 }
}

fn blob(content: &str) -> Layer {
    layer(&members::blob_name(&Digest::of(content)), content)
}

fn sample() -> Artifact {
    let layers = vec![layer("manifest.json", "{}"), layer("layout.json", "{ }"), layer("lock.yaml", "a"), blob("b")];
    Artifact { layers }
}

/// The sample's manifest after a change.
fn changed(change: impl FnOnce(&mut Value)) -> Result<Artifact, ArtifactError> {
    let mut value: Value = serde_json::from_slice(&sample().to_json().unwrap()).unwrap();
    change(&mut value);
    Artifact::parse(value.to_string().as_bytes())
}

#[test]
fn a_manifest_reads_back_and_has_the_same_bytes_each_time() {
    let bytes = sample().to_json().unwrap();
    assert_eq!(Artifact::parse(&bytes).unwrap(), sample());
    assert_eq!(sample().to_json().unwrap(), bytes);
    let text = String::from_utf8(bytes).unwrap();
    assert!(
        text.starts_with(r#"{"artifactType":"application/vnd.kubexm.bundle.v1","config":{"digest":"sha256:44136fa3"#)
    );
    assert!(text.ends_with(r#""schemaVersion":2}"#));
}

#[test]
fn what_is_stored_there_instead_of_a_bundle_is_named() {
    let other = changed(|v| v["artifactType"] = "application/vnd.cncf.helm.chart".into()).unwrap_err();
    assert!(other.to_string().contains("helm.chart"), "{other}");
    let image = changed(|v| {
        v.as_object_mut().unwrap().remove("artifactType");
        v["config"]["mediaType"] = "application/vnd.oci.image.config.v1+json".into();
    });
    assert!(matches!(image, Err(ArtifactError::NotABundle { .. })));
    assert!(matches!(Artifact::parse(b"<html>"), Err(ArtifactError::NotABundle { .. })));
    assert!(matches!(changed(|v| v["manifests"] = Value::Array(vec![])), Err(ArtifactError::NotABundle { .. })));
}

/// A registry's document may be megabytes of one text.
#[test]
fn what_is_wrong_with_an_artifact_quotes_a_part_of_it() {
    let long = "x".repeat(1 << 20);
    let subject = Digest::of("subject");
    for document in [
        format!("{{\"schemaVersion\":\"{long}\"}}"),
        format!("{{\"{long}\":"),
        format!("{{\"manifests\":\"{long}\"}}"),
        format!("{{\"manifests\":[\"{long}\"]}}"),
    ] {
        let listed = referrer::listed(document.as_bytes(), referrer::SIGNATURE_TYPE).unwrap_err();
        let parsed = referrer::parse(document.as_bytes(), referrer::SIGNATURE_TYPE, &subject).unwrap_err();
        for error in [Artifact::parse(document.as_bytes()).unwrap_err(), listed, parsed] {
            assert!(error.to_string().len() < 5_000, "{} bytes", error.to_string().len());
        }
    }
}

#[test]
fn a_layer_that_no_bundle_has_is_refused() {
    type Change = fn(&mut Value);
    let title = |v: &mut Value, at: usize, name: &str| v["layers"][at]["annotations"][TITLE] = name.into();
    let changes: [(&str, Change); 11] = [
        ("a path out of the bundle", |v| v["layers"][2]["annotations"][TITLE] = "../lock.yaml".into()),
        ("an absolute path", |v| v["layers"][2]["annotations"][TITLE] = "/etc/passwd".into()),
        ("a blob under another name", |v| v["layers"][3]["digest"] = Digest::of("x").to_string().into()),
        ("the signature as a member", |v| v["layers"][2]["annotations"][TITLE] = members::SIGNATURE.into()),
        ("no title", |v| v["layers"][2]["annotations"] = Value::Null),
        ("a doubled layer", |v| {
            let twice = v["layers"][3].clone();
            v["layers"].as_array_mut().unwrap().push(twice);
        }),
        ("manifest.json not first", |v| v["layers"].as_array_mut().unwrap().swap(0, 1)),
        ("no layout.json", |v| v["layers"].as_array_mut().unwrap().truncate(1)),
        ("a digest of another kind", |v| v["layers"][3]["digest"] = "sha512:00".into()),
        ("sizes beyond all files", |v| v["layers"][3]["size"] = u64::MAX.into()),
        ("a manifest.json without end", |v| v["layers"][0]["size"] = (DOCUMENT_LIMIT + 1).into()),
    ];
    for (what, change) in changes {
        assert!(changed(change).is_err(), "{what}");
    }
    assert!(changed(|v| v["config"]["size"] = 3.into()).is_err(), "another config");
    assert!(changed(|v| v["subject"] = v["config"].clone()).is_err(), "a subject");
    assert!(changed(|v| title(v, 2, "a\u{0}b")).is_err(), "a NUL");
    assert!(changed(|v| v["annotations"] = serde_json::json!({"x": "y"})).is_ok(), "others may annotate");
}

#[test]
fn a_manifest_that_no_registry_takes_is_refused_before_anything_is_sent() {
    let mut artifact = sample();
    artifact.layers.extend((0..20_000).map(|n| blob(&n.to_string())));
    let error = artifact.to_json().unwrap_err();
    assert!(matches!(error, ArtifactError::TooManyMembers { members: 20_004, .. }), "{error}");
}

#[test]
fn truncated_or_changed_manifests_do_not_panic_the_reader() {
    let bytes = sample().to_json().unwrap();
    for at in 0..bytes.len() {
        assert!(Artifact::parse(&bytes[..at]).is_err());
        for bit in [0x01, 0x20, 0x80] {
            let mut bad = bytes.clone();
            bad[at] ^= bit;
            if let Ok(artifact) = Artifact::parse(&bad) {
                artifact.check_names().unwrap();
            }
        }
    }
}
