//! Packing continues while an origin still sends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kubexm_spec::{Digest, ExitCode};
use serde_json::json;

use crate::images::Maker;
use crate::server::{Reply, Request, Server, file};
use crate::site::{Site, noise, wanted};

/// How long a layer is held back at the most.
const PATIENCE: Duration = Duration::from_secs(60);
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A registry that serves the blobs of a layout, as far as a build asks. `held` is called before a layer is sent.
fn registry(layout: PathBuf, manifest: Digest, layer: Digest, held: impl Fn() + Send + Sync + 'static) -> Server {
    Server::start(move |request: &Request| {
        let name = request.path.rsplit('/').next().unwrap();
        if request.path == "v2/" {
            return Reply::new(200, "{}");
        }
        let digest = if name == "v1" { Ok(manifest) } else { name.parse::<Digest>() };
        let Ok(digest) = digest else { return Reply::new(404, "") };
        if digest == layer {
            held();
        }
        let reply = file(request, &std::fs::read(layout.join("blobs/sha256").join(digest.hex())).unwrap());
        let kind = if digest == manifest { MANIFEST } else { "application/octet-stream" };
        Reply { headers: vec![("content-type", kind.to_owned())], ..reply }
    })
}

/// A layer that is behind the file in the bundle: blobs of one stage are ordered by digest.
fn layer_behind(file: Digest) -> Vec<u8> {
    (1..).map(|seed| noise(seed, 2000)).find(|layer| Digest::of(layer) > file).unwrap()
}

#[test]
fn downloaded_blobs_are_packed_while_a_layer_is_still_being_fetched() {
    let site = Site::new();
    let body = noise(7, 300_000);
    let origin = Server::files(vec![("tool", body.clone())]);
    let maker = Maker::new(site.path("layout"));
    let layer = maker.blob("application/vnd.oci.image.layer.v1.tar", &layer_behind(Digest::of(&body)));
    let config = maker.json(
        "application/vnd.oci.image.config.v1+json",
        &json!({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [layer.digest]}}),
    );
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer.clone()]});
    let manifest = maker.json(MANIFEST, &manifest).digest;

    // How much of the bundle is on the disk when the layer is sent at last.
    let (packed, partial) = (Arc::new(AtomicU64::new(0)), site.path(".out.tar.zst.partial"));
    let (reported, whole) = (Arc::clone(&packed), body.len() as u64);
    let server = registry(site.path("layout"), manifest, layer.digest, move || {
        let deadline = Instant::now() + PATIENCE;
        let mut len = 0;
        while len < whole && Instant::now() < deadline {
            len = partial.metadata().map_or(0, |partial| partial.len());
            std::thread::yield_now();
        }
        reported.store(len, Ordering::Relaxed);
    });
    site.zone("registry.test", server.address());
    site.extras(&format!(
        "zone: zone.yaml\nextraFiles:\n{}\nextraImages: [{{name: \"registry.test/team/app:v1\"}}]",
        wanted(&origin.url("tool"), &body)
    ));
    site.built(&[]);
    let packed = packed.load(Ordering::Relaxed);
    assert!(packed >= whole, "{packed} bytes were packed while the layer was held back for {PATIENCE:?}");
    site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
}
