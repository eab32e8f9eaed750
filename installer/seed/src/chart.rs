//! A chart as an OCI artifact of helm's (helm.sh, "Use OCI-based registries": media types of config and content).

use std::io::Read;

use bytes::Bytes;
use flate2::read::GzDecoder;
use kubexm_spec::Digest;
use serde_json::{Value, json};

use crate::artifact::{Artifact, Source, manifest};
use crate::error::SeedError;
use crate::naming::tag_of;

const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CONTENT: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// The largest Chart.yaml that is read, in bytes.
const LIMIT: u64 = 1 << 20;
/// Values of it; those of the largest charts, with all who keep them and what they need, have some hundred.
const NODES: usize = 50_000;
/// Bytes of its texts: twice what it may have as a file.
const TEXTS: usize = 2 << 20;
/// Values that its aliases stand for.
const REPLAYED: usize = 10_000;
/// The most entries of an archive that are looked at before Chart.yaml.
const ENTRIES: usize = 10_000;
/// The most bytes that an archive may unpack to before Chart.yaml is found.
const UNPACKED: u64 = 256 << 20;

/// The chart in an archive: its name, and what is pushed. Helm compares both with Chart.yaml.
pub fn chart(archive: impl Read, digest: Digest, size: u64, what: &str) -> Result<(String, Artifact), SeedError> {
    let wrong = |problem: String| SeedError::Document { what: what.to_owned(), problem };
    let metadata = metadata(archive).map_err(&wrong)?;
    let field = |name: &str| metadata.get(name).and_then(Value::as_str).map(str::to_owned);
    let missing = |name: &str| wrong(format!("its Chart.yaml has no {name}"));
    let (name, version) =
        (field("name").ok_or_else(|| missing("name"))?, field("version").ok_or_else(|| missing("version"))?);
    let config = Bytes::from(metadata.to_string().into_bytes());
    let (config_digest, config_size) = (Digest::of(&config), config.len() as u64);
    let mut annotations =
        json!({ "org.opencontainers.image.title": name, "org.opencontainers.image.version": version });
    if let Some(description) = field("description") {
        annotations["org.opencontainers.image.description"] = json!(description);
    }
    let document = manifest(json!({
        "config": { "mediaType": CONFIG, "digest": config_digest, "size": config_size },
        "layers": [{ "mediaType": CONTENT, "digest": digest, "size": size }],
        "annotations": annotations,
    }));
    let blobs = [(config_digest, (config_size, Source::Memory(config))), (digest, (size, Source::Bundle))].into();
    Ok((name, Artifact { document, blobs, tag: tag_of(&version) }))
}

/// Chart.yaml as JSON, which is what helm keeps as the config.
fn metadata(mut blob: impl Read) -> Result<Value, String> {
    let unreadable = |e: std::io::Error| format!("is not a chart archive ({e})");
    let metadata = of_archive(&mut blob)?;
    // Whether the bundle has another blob there than its manifest names is known at its end.
    std::io::copy(&mut blob, &mut std::io::sink()).map_err(unreadable)?;
    Ok(metadata)
}

fn of_archive(archive: impl Read) -> Result<Value, String> {
    let unreadable = |e: std::io::Error| format!("is not a chart archive ({e})");
    let mut archive = tar::Archive::new(GzDecoder::new(archive).take(UNPACKED));
    for entry in archive.entries().map_err(unreadable)?.take(ENTRIES) {
        let mut entry = entry.map_err(unreadable)?;
        let path = entry.path().map_err(unreadable)?.into_owned();
        // `NAME/Chart.yaml`; those of subcharts lie deeper.
        let is_own = path.components().count() == 2 && path.file_name().is_some_and(|name| name == "Chart.yaml");
        if !is_own {
            continue;
        }
        let mut text = String::new();
        entry.by_ref().take(LIMIT + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > LIMIT {
            return Err(format!("its Chart.yaml has more than {LIMIT} bytes"));
        }
        return of_yaml(&text).map_err(|e| format!("its Chart.yaml is not YAML ({e})"));
    }
    Err("has no Chart.yaml".to_owned())
}

/// Within limits: what aliases repeat counts each time, since the bundle may be unsigned.
fn of_yaml(text: &str) -> Result<Value, String> {
    let budget = serde_saphyr::budget! {
        max_nodes: NODES,
        max_events: 4 * NODES,
        max_documents: 2,
        max_total_scalar_bytes: TEXTS,
    };
    let options = serde_saphyr::options! {
        budget: budget,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: REPLAYED },
    };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar.into_inner().unwrap()).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn the_charts_own_metadata_is_the_config_and_the_archive_the_only_layer() {
        let bytes = archive(&[
            ("app/charts/sub/Chart.yaml", "name: sub\nversion: 9.9.9\n"),
            ("app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.2.3+7\nkeywords: [a]\n"),
        ]);
        let (name, artifact) = chart(bytes.as_slice(), Digest::of(&bytes), bytes.len() as u64, "chart x").unwrap();
        assert_eq!((name.as_str(), artifact.tag.as_str()), ("app", "1.2.3_7"));
        let manifest: Value = serde_json::from_slice(&artifact.document.bytes).unwrap();
        assert_eq!(manifest["config"]["mediaType"], CONFIG);
        assert_eq!(manifest["layers"][0]["mediaType"], CONTENT);
        assert_eq!(manifest["layers"][0]["digest"], Digest::of(&bytes).to_string());
        let config: Digest = manifest["config"]["digest"].as_str().unwrap().parse().unwrap();
        let Source::Memory(config) = &artifact.blobs[&config].1 else { panic!() };
        assert_eq!(serde_json::from_slice::<Value>(config).unwrap()["version"], "1.2.3+7");
    }

    #[test]
    fn an_archive_without_a_chart_is_refused_by_name() {
        for (bytes, said) in [
            (archive(&[("app/values.yaml", "a: 1")]), "has no Chart.yaml"),
            (archive(&[("app/Chart.yaml", "name: app")]), "no version"),
            (archive(&[("app/Chart.yaml", "{")]), "not YAML"),
            (b"<html>".to_vec(), "not a chart archive"),
        ] {
            let error = chart(bytes.as_slice(), Digest::of(&bytes), 1, "chart x").unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("chart x"), "{error}");
        }
    }

    #[test]
    fn a_text_that_aliases_repeat_counts_each_time() {
        let of = |aliases: usize| {
            let text = "x".repeat(60 << 10);
            let words = "*a, ".repeat(aliases);
            archive(&[(
                "c/Chart.yaml",
                &format!("name: c\nversion: '1'\ndescription: &a {text}\nkeywords: [{words}]\n"),
            )])
        };
        let read = |bytes: &[u8]| chart(bytes, Digest::of(bytes), 1, "chart x").map(|(name, _)| name);
        assert_eq!(read(&of(5)).unwrap(), "c");
        let error = read(&of(60)).unwrap_err().to_string();
        assert!(error.contains("chart x") && error.contains("its Chart.yaml is not YAML"), "{error}");
    }

    #[test]
    fn a_blob_that_fails_at_its_end_names_nothing() {
        struct Forged<'a>(&'a [u8]);
        impl Read for Forged<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                match self.0.read(buffer)? {
                    0 => Err(std::io::Error::other("its digest is another")),
                    read => Ok(read),
                }
            }
        }
        let mut bytes = archive(&[("app/Chart.yaml", "name: app\nversion: 9.9.9\n")]);
        let digest = Digest::of(&bytes);
        bytes.resize(bytes.len() + (1 << 20), 0);
        let error = chart(Forged(&bytes), digest, 1, "chart x").unwrap_err().to_string();
        assert!(error.contains("its digest is another"), "{error}");
    }
}
