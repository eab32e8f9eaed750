//! `pull` of what is stopped, missing, or was put into the registry by somebody else.

use kubexm_archive::{Signature, members, signature_slot};
use kubexm_builder::oci::referrer::{LOOKS, Referrer, SIGNATURE_TYPE, Subject};
use kubexm_spec::{Digest, ExitCode};
use kubexm_transport::oci::Repository;
use kubexm_transport::{Credentials, HttpClient, HttpOptions, ImageCandidate, OciRegistry};
use serde_json::Value;

use crate::push::{data, site};
use crate::registry::{Registry, Setup};
use crate::server::{Reply, Server};
use crate::site::{Site, assert_contains, bundles, digest};

const TITLE: &str = "org.opencontainers.image.title";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Does something with a repository of the registry, as any client could.
fn with<T>(registry: &Registry, name: &str, work: impl AsyncFnOnce(&Repository) -> T) -> T {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let http = HttpClient::new(HttpOptions::default()).unwrap();
        let at = ImageCandidate { plain_http: true, ..ImageCandidate::new(&registry.address, name) };
        let client = OciRegistry::new(http, Credentials::anonymous());
        work(&client.repository(&at, &[]).await.unwrap()).await
    })
}

/// Puts bytes into the repository; their descriptor without a title.
async fn blob(to: &Repository, content: &[u8]) -> Value {
    let (digest, size) = (Digest::of(content), content.len() as u64);
    let bytes: std::sync::Arc<dyn kubexm_transport::oci::Content> =
        std::sync::Arc::new(kubexm_transport::oci::Bytes::copy_from_slice(content));
    to.push_blob((digest, size), bytes, &|_, _| {}).await.unwrap();
    serde_json::json!({"digest": digest, "size": size, "mediaType": "application/vnd.kubexm.bundle.member.v1"})
}

/// A registry with a bundle in the repository `a`, and the site it was built in.
fn pushed() -> (Registry, Site) {
    let registry = Registry::start(Setup::default());
    let site = site(2, 300_000);
    site.run(&["push", "out.tar.zst", &registry.oci("a:v1"), "--plain-http"]).must(ExitCode::Ok);
    (registry, site)
}

/// Puts another manifest in the place of the pushed one.
fn forge(registry: &Registry, change: impl AsyncFnOnce(&Repository, &mut Value)) {
    with(registry, "a", async |to| {
        let mut manifest: Value = serde_json::from_slice(&to.manifest("v1").await.unwrap().unwrap().bytes).unwrap();
        change(to, &mut manifest).await;
        to.push_manifest("bad", MANIFEST, manifest.to_string().as_bytes()).await.unwrap();
    });
}

/// A pull of the forged artifact that must fail, with nothing under the bundle's name nor beside it.
fn refused(registry: &Registry, site: &Site, code: ExitCode) -> String {
    let before = bundles(&site.path(""));
    let ended = site.run(&["pull", &registry.oci("a:bad"), "-o", "back.tar.zst", "--plain-http", "--cache", "c"]);
    let ended = ended.must(code);
    assert_eq!(bundles(&site.path("")), before);
    ended.err
}

#[test]
fn an_artifact_that_lies_is_refused_before_its_members_are_fetched() {
    let (registry, site) = pushed();
    type Change = fn(&mut Vec<Value>);
    let changes: [(&str, Change); 8] = [
        ("sources.json is not the one that layout.json describes", |l| {
            let at = l.len() - 1;
            l[at]["size"] = (l[at]["size"].as_u64().unwrap() + 1).into();
        }),
        ("is not the one that manifest.json lists", |l| {
            let at = l.len() - 2;
            l[at]["size"] = (l[at]["size"].as_u64().unwrap() + 1).into();
        }),
        ("is there twice", |l| l.push(l[l.len() - 1].clone())),
        ("../../lock.yaml", |l| l[2]["annotations"][TITLE] = "../../lock.yaml".into()),
        ("sources.json is not the one", |l| drop(l.pop())),
        ("its layout.json", |l| drop(l.remove(l.len() - 2))),
        ("is where layout.json has", |l| {
            let at = l.len() - 2;
            l.swap(at, at - 1);
        }),
        ("is not the one that manifest.json lists", |l| {
            // Another text under the name of this one; both are there.
            let other = (l[3]["digest"].clone(), l[3]["size"].clone());
            (l[2]["digest"], l[2]["size"]) = other;
        }),
    ];
    for (says_so, change) in changes {
        forge(&registry, async |_, manifest| change(manifest["layers"].as_array_mut().unwrap()));
        assert_contains(&refused(&registry, &site, ExitCode::OriginMismatch), &[says_so, "a bad"]);
    }
    let fetched = std::fs::read_dir(site.path("c/blobs/sha256")).unwrap().count();
    assert!(fetched <= 2, "{fetched} blobs were fetched for artifacts that cannot be");
}

#[test]
fn a_file_that_is_no_bundle_is_reported_as_such() {
    let (registry, site) = pushed();
    forge(&registry, async |_, manifest| manifest["artifactType"] = "application/vnd.example.other".into());
    assert_contains(
        &refused(&registry, &site, ExitCode::NotABundle),
        &["application/vnd.example.other", "kubexm-bundle push"],
    );
}

#[test]
fn a_damaged_blob_of_a_registry_is_named_and_the_pull_resumes_when_it_is_repaired() {
    let (registry, site) = pushed();
    let blob = digest(&site.path("f1.bin"));
    let good = std::fs::read(registry.data(&blob.hex())).unwrap();
    let mut bad = good.clone();
    bad[1000] ^= 1;
    std::fs::write(registry.data(&blob.hex()), bad).unwrap();
    let args = ["pull", &registry.oci("a:v1"), "-o", "back.tar.zst", "--plain-http", "--cache", "c"];
    let ended = site.run(&args).must(ExitCode::OriginMismatch);
    assert_contains(&ended.err, &[&blob.to_string()]);
    assert!(!site.path("back.tar.zst").exists() && !site.path("c/blobs/sha256").join(blob.hex()).exists());
    std::fs::write(registry.data(&blob.hex()), good).unwrap();
    // What is in the cache is not asked for again: it could not come.
    let other = digest(&site.path("f0.bin"));
    if site.path("c/blobs/sha256").join(other.hex()).exists() {
        std::fs::write(registry.data(&other.hex()), "gone").unwrap();
    }
    site.run(&args).must(ExitCode::Ok);
    assert_eq!(digest(&site.path("back.tar.zst")), digest(&site.path("out.tar.zst")));
}

#[test]
fn what_is_in_the_cache_is_not_fetched_again() {
    let (registry, site) = pushed();
    let args = ["pull", &registry.oci("a:v1"), "-o", "back.tar.zst", "--plain-http", "--cache", "c"];
    site.run(&args).must(ExitCode::Ok);
    for name in ["f0.bin", "f1.bin"] {
        std::fs::remove_file(registry.data(&digest(&site.path(name)).hex())).unwrap();
    }
    std::fs::remove_file(site.path("back.tar.zst")).unwrap();
    let events = site.run(&[&args[..], &["--json"]].concat()).must(ExitCode::Ok).events();
    assert_eq!(digest(&site.path("back.tar.zst")), digest(&site.path("out.tar.zst")));
    // It counts as there from the beginning, not as what came fast.
    let first = events.iter().find(|event| event["type"] == "progress" && event["what"] == "pull").unwrap();
    assert!(first["total"].as_u64().unwrap() > 0 && first["done"] == first["total"], "{first}");
    let elsewhere = ["pull", &registry.oci("a:v1"), "-o", "b.tar.zst", "--plain-http", "--cache", "empty"];
    let code = site.run(&elsewhere).code;
    assert_ne!(code, 0, "the registry still had what was taken away");
}

#[test]
fn a_file_of_another_encoder_is_refused_with_its_version_unless_it_is_recoded() {
    let (registry, site) = pushed();
    forge(&registry, async |to, manifest| {
        let bundle = kubexm_archive::Bundle::open(&site.path("out.tar.zst")).unwrap();
        let layout = String::from_utf8(bundle.read(members::LAYOUT, 1 << 20).unwrap()).unwrap();
        let other = layout.replace(&bundle.layout().encoder, "zstd 9.9.9");
        assert_ne!(other, layout);
        let mut descriptor = blob(to, other.as_bytes()).await;
        descriptor["annotations"] = manifest["layers"][1]["annotations"].clone();
        manifest["layers"][1] = descriptor;
    });
    let text = refused(&registry, &site, ExitCode::BundleNewer);
    assert_contains(&text, &["zstd 9.9.9", "--recode"]);
    let args = ["pull", "--json", &registry.oci("a:bad"), "-o", "back.tar.zst", "--plain-http", "--recode"];
    let pulled = data(&site.run(&args).must(ExitCode::Ok));
    assert_eq!(pulled["recoded"], true);
    // Here the program's own encoder wrote the first one too.
    assert_eq!(digest(&site.path("back.tar.zst")), digest(&site.path("out.tar.zst")));
}

#[test]
fn a_signature_that_is_none_is_left_out_with_a_warning() {
    let (registry, site) = pushed();
    with(&registry, "a", async |to| {
        let subject = to.manifest("v1").await.unwrap().unwrap().descriptor;
        let mut layer = blob(to, &[b'x'; 16 << 10]).await;
        layer["annotations"] = serde_json::json!({TITLE: members::SIGNATURE});
        let mut manifest: Value = serde_json::from_slice(&to.manifest("v1").await.unwrap().unwrap().bytes).unwrap();
        manifest["artifactType"] = "application/vnd.kubexm.signature.v1".into();
        manifest["layers"] = serde_json::json!([layer]);
        manifest["subject"] = serde_json::json!({
            "digest": subject.digest, "size": subject.size, "mediaType": MANIFEST,
        });
        let bytes = manifest.to_string();
        let digest = Digest::of(&bytes);
        to.push_manifest(&digest.to_string(), MANIFEST, bytes.as_bytes()).await.unwrap();
        let entry = serde_json::json!({
            "artifactType": "application/vnd.kubexm.signature.v1",
            "digest": digest, "size": bytes.len(), "mediaType": MANIFEST,
        });
        let index_type = "application/vnd.oci.image.index.v1+json";
        let list = serde_json::json!({"schemaVersion": 2, "mediaType": index_type, "manifests": [entry]});
        let tag = kubexm_transport::oci::referrers_tag(&subject.digest);
        to.push_manifest(&tag, index_type, list.to_string().as_bytes()).await.unwrap();
    });
    let ended = site.run(&["pull", &registry.oci("a:v1"), "-o", "back.tar.zst", "--plain-http"]).must(ExitCode::Ok);
    assert_contains(&ended.err, &["warning", "listed as a signature and is not one", "unsigned"]);
    assert_eq!(digest(&site.path("back.tar.zst")), digest(&site.path("out.tar.zst")));
}

/// A referrer with one signature by a key of that number, and its layer.
fn signed(subject: Subject, key: usize) -> (Vec<u8>, Vec<u8>) {
    let signature =
        Signature { key_id: format!("{key:032x}"), alg: "ed25519".to_owned(), sig: "AAAA".to_owned(), statement: None };
    let referrer = Referrer::signature(signature_slot::encode(&[signature]).unwrap());
    (referrer.to_json(subject), referrer.content)
}

fn entry(manifest: &[u8]) -> Value {
    serde_json::json!({
        "artifactType": SIGNATURE_TYPE, "digest": Digest::of(manifest), "size": manifest.len(), "mediaType": MANIFEST,
    })
}

/// Whose signatures are in a bundle, by number.
fn keys(bundle: &std::path::Path) -> Vec<usize> {
    let bundle = kubexm_archive::Bundle::open(bundle).unwrap();
    let number = |signature: &Signature| usize::from_str_radix(&signature.key_id, 16).unwrap();
    let mut keys: Vec<_> = bundle.signatures().iter().map(number).collect();
    keys.sort();
    keys
}

#[test]
fn of_too_many_signatures_the_newest_are_pulled_with_a_warning() {
    let (registry, site) = pushed();
    with(&registry, "a", async |to| {
        let subject = to.manifest("v1").await.unwrap().unwrap().descriptor;
        blob(to, b"{}").await;
        let mut entries = Vec::new();
        for n in 0..LOOKS + 3 {
            let (manifest, layer) = signed(Subject { digest: subject.digest, size: subject.size }, n);
            blob(to, &layer).await;
            to.push_manifest(&Digest::of(&manifest).to_string(), MANIFEST, &manifest).await.unwrap();
            entries.push(entry(&manifest));
        }
        let list = serde_json::json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
        let tag = kubexm_transport::oci::referrers_tag(&subject.digest);
        to.push_manifest(&tag, INDEX, list.to_string().as_bytes()).await.unwrap();
    });
    let ended = site.run(&["pull", &registry.oci("a:v1"), "-o", "back.tar.zst", "--plain-http"]).must(ExitCode::Ok);
    assert_contains(&ended.err, &["warning: 3 listed signatures are left out: the newest 32"]);
    assert_eq!(keys(&site.path("back.tar.zst")), (3..LOOKS + 3).collect::<Vec<_>>());
}

/// A registry that lists referrers itself, one a page, as no registry of Debian does. Answers `GET` only.
fn paging(files: Vec<(String, Vec<u8>)>, pages: Vec<Value>, endless: bool) -> Server {
    Server::start(move |request| {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        if path.starts_with("v2/a/referrers/") {
            let filter = format!("artifactType={}", SIGNATURE_TYPE.replace('/', "%2F"));
            assert!(query.contains(&filter), "{query}");
            let number: usize = query.split("page=").nth(1).map_or(0, |page| page.parse().unwrap());
            let list = serde_json::json!({
                "schemaVersion": 2, "mediaType": INDEX, "manifests": [pages[number % pages.len()]],
            });
            let reply = Reply::new(200, list.to_string()).header("content-type", INDEX);
            return match number + 1 {
                next if next < pages.len() || endless => {
                    reply.header("link", format!("</{path}?{filter}&page={next}>; rel=\"next\""))
                }
                _ => reply,
            };
        }
        if path == "v2/" {
            return Reply::new(200, "{}");
        }
        match files.iter().find(|(name, _)| *name == path) {
            Some((_, bytes)) => crate::server::file(request, bytes).header("content-type", MANIFEST),
            None => Reply::new(404, ""),
        }
    })
}

#[test]
fn signatures_on_all_pages_of_referrers_are_pulled_and_an_endless_list_is_given_up() {
    let (registry, site) = pushed();
    let subject = registry.raw("a:v1");
    let at = Subject { digest: Digest::of(&subject), size: subject.len() as u64 };
    let mut files = vec![("v2/a/manifests/v1".to_owned(), subject.clone())];
    let document: Value = serde_json::from_slice(&subject).unwrap();
    for layer in document["layers"].as_array().unwrap() {
        let digest: Digest = layer["digest"].as_str().unwrap().parse().unwrap();
        files.push((format!("v2/a/blobs/{digest}"), std::fs::read(registry.data(&digest.hex())).unwrap()));
    }
    let mut pages = Vec::new();
    for n in 0..5 {
        let (manifest, layer) = signed(at, n);
        pages.push(entry(&manifest));
        files.push((format!("v2/a/blobs/{}", Digest::of(&layer)), layer));
        files.push((format!("v2/a/manifests/{}", Digest::of(&manifest)), manifest));
    }
    for (endless, warning) in [(false, ""), (true, "warning: the registry lists more than are read")] {
        let server = paging(files.clone(), pages.clone(), endless);
        let address = format!("oci://{}/a:v1", server.address());
        let ended = site.run(&["pull", &address, "-o", "back.tar.zst", "--plain-http"]).must(ExitCode::Ok);
        assert_contains(&ended.err, &["5 signatures, not checked", warning]);
        assert_eq!(ended.err.contains("warning"), endless, "{}", ended.err);
        assert_eq!(keys(&site.path("back.tar.zst")), [0, 1, 2, 3, 4]);
        assert!(server.requests().len() < 100, "{}", server.requests().len());
    }
}

#[test]
fn an_existing_file_stays_if_the_artifact_contradicts_its_layout() {
    let (registry, site) = pushed();
    forge(&registry, async |to, manifest| {
        let bundle = kubexm_archive::Bundle::open(&site.path("out.tar.zst")).unwrap();
        let mut layout = bundle.read(members::LAYOUT, 1 << 20).unwrap();
        // The same document, and other bytes than those that this program writes.
        layout.push(b'\n');
        let mut descriptor = blob(to, &layout).await;
        descriptor["annotations"] = manifest["layers"][1]["annotations"].clone();
        manifest["layers"][1] = descriptor;
    });
    // An earlier bundle, cut off.
    let mine = &std::fs::read(site.path("out.tar.zst")).unwrap()[..100];
    site.write("back.tar.zst", mine);
    assert_contains(&refused(&registry, &site, ExitCode::OriginMismatch), &["layout.json"]);
    assert_eq!(std::fs::read(site.path("back.tar.zst")).unwrap(), mine);
    let fetched = std::fs::read_dir(site.path("c/blobs/sha256")).unwrap().count();
    assert!(fetched <= 2, "{fetched} blobs were fetched for a file that cannot be");
}

#[test]
fn a_tag_or_digest_that_is_not_there_is_missing_and_a_file_in_the_way_stays_as_it_is() {
    let (registry, site) = pushed();
    let mine = &std::fs::read(site.path("out.tar.zst")).unwrap()[..100];
    site.write("back.tar.zst", mine);
    let absent = format!("{}@{}", registry.oci("a"), Digest::of("no such artifact"));
    for from in [registry.oci("a:v2"), registry.oci("nothing"), absent] {
        let ended = site.run(&["pull", &from, "-o", "back.tar.zst", "--plain-http"]).must(ExitCode::OriginMissing);
        assert_contains(&ended.err, &["there is no such tag or digest", &registry.address]);
    }
    assert_eq!(std::fs::read(site.path("back.tar.zst")).unwrap(), mine);
    let pull = ["pull", &registry.oci("a:v1"), "-o", "notes.txt", "--plain-http"];
    site.write("notes.txt", "mine");
    let refused = site.run(&pull).must(ExitCode::Usage).err;
    assert_contains(&refused, &["notes.txt exists and is not a bundle", "--force"]);
    assert_eq!(std::fs::read(site.path("notes.txt")).unwrap(), b"mine");
    site.run(&[&pull[..], &["--force"]].concat()).must(ExitCode::Ok);
    assert_eq!(digest(&site.path("notes.txt")), digest(&site.path("out.tar.zst")));
    let nowhere = site.run(&["pull", &registry.oci("a:v1"), "-o", "no/such/folder/b.tar.zst", "--plain-http"]);
    assert_contains(&nowhere.must(ExitCode::Usage).err, &["the folder no/such/folder does not exist"]);
}
