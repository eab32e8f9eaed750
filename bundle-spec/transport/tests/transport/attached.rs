//! What is attached to images: found by tag and by the list of referrers, at the place that answered, and offline again.

use std::collections::HashMap;

use kubexm_spec::lock::Descriptor;
use kubexm_spec::{Digest, ExitCode};
use kubexm_transport::oci::referrers_tag;
use kubexm_transport::{Credentials, HttpClient, HttpOptions, ImageCandidate, OciRegistry, Registry};
use serde_json::json;

use crate::images::{INDEX, MANIFEST, Maker};
use crate::server::{Reply, Server};
use crate::support::{client, options, provider, quiet, store};

/// A signature or attestation as cosign and oras write them.
fn attached(maker: &Maker, kind: &str, subject: Option<&Descriptor>) -> Descriptor {
    let config = maker.blob("application/vnd.oci.empty.v1+json", b"{}");
    let layer = maker.blob("application/vnd.dev.cosign.simplesigning.v1+json", kind.as_bytes());
    let mut manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": kind, "config": config, "layers": [layer],
    });
    if let Some(subject) = subject {
        manifest["subject"] = serde_json::to_value(subject).unwrap();
    }
    maker.json(MANIFEST, &manifest)
}

/// A registry of one repository: manifests by tag (and by digest), and lists of referrers where it keeps them.
async fn registry(maker: &Maker, tags: Vec<(String, Digest)>, lists: Option<HashMap<String, String>>) -> Server {
    let (root, tags): (_, HashMap<_, _>) = (maker.path().join("blobs/sha256"), tags.into_iter().collect());
    Server::start(move |request| {
        let path = request.path.split('?').next().unwrap_or_default();
        let last = path.rsplit('/').next().unwrap_or_default();
        let blob = |digest: &str| std::fs::read(root.join(digest.trim_start_matches("sha256:"))).ok();
        if path.contains("/referrers/") {
            return match &lists {
                Some(lists) => Reply::new(200, lists.get(last).cloned().unwrap_or_else(|| "{\"manifests\":[]}".into())),
                None => Reply::new(405, "{\"errors\":[{\"code\":\"UNSUPPORTED\"}]}"),
            };
        }
        let digest = tags.get(last).map(Digest::to_string).unwrap_or_else(|| last.to_owned());
        match blob(&digest) {
            Some(bytes) => Reply::new(200, bytes).header("content-type", MANIFEST),
            None => Reply::new(404, "{}"),
        }
    })
    .await
}

fn candidate(server: &Server) -> [ImageCandidate; 1] {
    [ImageCandidate { plain_http: true, ..ImageCandidate::new(server.address(), "team/app") }]
}

#[tokio::test]
async fn signatures_by_tag_and_by_list_are_found_kept_and_found_again_offline() {
    let maker = Maker::new();
    let image = maker.manifest(MANIFEST, "amd64", &[maker.layer(1, 100)]);
    let index = maker.index(INDEX, &[(Some("linux/amd64"), image.clone())]);
    let (by_tag, sbom) = (attached(&maker, "signature", None), attached(&maker, "sbom", Some(&image)));
    let list = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [sbom]}).to_string();
    let tag = format!("{}.sig", referrers_tag(&index.digest));
    // Once with a list of its own, once with the list under a tag, which is what a registry without lists has.
    for own in [true, false] {
        let mut tags = vec![(tag.clone(), by_tag.digest)];
        let lists = own.then(|| HashMap::from([(image.digest.to_string(), list.clone())]));
        if !own {
            tags.push((referrers_tag(&image.digest), maker.blob(INDEX, list.as_bytes()).digest));
        }
        let server = registry(&maker, tags, lists).await;
        let (candidates, place) = (candidate(&server), format!("{}/team/app", server.address()));
        let (_dir, store) = store();
        let online = OciRegistry::new(client(), Credentials::anonymous()).with_store(store.clone());
        let subjects = [index.digest, image.digest];
        let found = online.attached(&candidates, &place, &subjects).await.unwrap();
        let reported: Vec<_> =
            found.iter().map(|one| (one.subject, one.tag.clone(), one.manifest.descriptor.digest)).collect();
        assert_eq!(
            reported,
            [(index.digest, Some(tag.clone()), by_tag.digest), (image.digest, None, sbom.digest)],
            "{own}"
        );
        for one in &found {
            one.keep(&store).unwrap();
            online.fetch_blobs(&candidates, &one.blobs, &store, &quiet).await.unwrap();
        }
        let asked = server.requests().len();
        provider();
        let offline = HttpClient::new(HttpOptions { offline: true, ..options() }).unwrap();
        let offline = OciRegistry::new(offline, Credentials::anonymous()).with_store(store.clone());
        assert_eq!(offline.attached(&candidates, &place, &subjects).await.unwrap(), found);
        assert_eq!(server.requests().len(), asked);
        std::fs::remove_file(store.path(&by_tag.digest)).unwrap();
        let error = offline.attached(&candidates, &place, &subjects).await.unwrap_err();
        assert!(error.to_string().contains(&by_tag.digest.to_string()), "{error}");
    }
}

#[tokio::test]
async fn only_the_place_that_answered_is_asked_and_one_that_is_down_is_an_error() {
    let maker = Maker::new();
    let image = maker.manifest(MANIFEST, "amd64", &[maker.layer(1, 100)]);
    let (quiet_one, down) = (registry(&maker, Vec::new(), None).await, Server::start(|_| Reply::new(500, "")).await);
    let candidates = [candidate(&down), candidate(&quiet_one)].concat();
    let client = OciRegistry::new(client(), Credentials::anonymous());
    let at = |server: &Server| format!("{}/team/app", server.address());
    assert_eq!(client.attached(&candidates, &at(&quiet_one), &[image.digest]).await.unwrap(), []);
    assert!(down.requests().is_empty());
    let error = client.attached(&candidates, &at(&down), &[image.digest]).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginDown, "{error}");
}
