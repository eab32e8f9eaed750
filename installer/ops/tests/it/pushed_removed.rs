//! What earlier bundles have brought into a distribution registry or a Harbor goes, and what others have put there stays.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Host, same};
use kubexm_ops::fake::harbor_host::{access, harbor, projects};
use kubexm_ops::{Wave, dispatch};
use kubexm_plan::depot::record_path;
use kubexm_plan::op::{
    HarborImage, HarborImages, HarborImagesRemoved, RegistryBlobsRemoved, RegistryLayout, RegistryUnlinked,
    RemovedContent, RemovedImages,
};
use kubexm_plan::{ObservedState, Op};
use kubexm_spec::Digest;
use kubexm_spec::depot::{Repository, SCHEMA};
use serde_json::json;

const DATA: &str = "/mnt/registry";
const ROOT: &str = "/mnt/registry/docker/registry/v2";

fn look(host: &Host, op: &Op) -> ObservedState {
    dispatch::observe(op, &host.machine).unwrap_or_else(|error| panic!("{}", error.full()))
}

fn converge(host: &Host, op: &Op) {
    dispatch::keep(op, &host.machine).unwrap_or_else(|error| panic!("{}", error.full()));
    dispatch::converge(op, &host.machine).unwrap_or_else(|error| panic!("{}", error.full()));
    assert!(look(host, op).satisfied, "{}", look(host, op).raw());
}

/// One image with this content, a layer of its own and one that others have.
fn image(host: &Host, content: &str) -> Repository {
    let [manifest, own, shared] = [content, &format!("layer of {content}"), "shared layer"].map(|text| host.blob(text));
    Repository { tags: [("1".to_owned(), manifest)].into(), manifests: [manifest].into(), blobs: [own, shared].into() }
}

fn layout(host: &Host, images: &[(&str, &str)]) {
    let repositories = images.iter().map(|(name, content)| ((*name).to_owned(), image(host, content))).collect();
    converge(host, &RegistryLayout { data_dir: DATA.to_owned(), repositories }.into());
}

/// Two bundles: `a.b/moved:1` is another image in the second, which lacks `a.b/old`. Beside them a repository of somebody else's, with a
/// layer of the first bundle.
fn registry() -> Host {
    let host = Host::fresh();
    layout(&host, &[("a.b/old", "old"), ("a.b/moved", "before")]);
    layout(&host, &[("a.b/moved", "now")]);
    let theirs = Digest::of("layer of before");
    host.put(&format!("{ROOT}/repositories/x/y/_layers/sha256/{}/link", theirs.hex()), theirs.to_string());
    host
}

/// What only the first one has.
fn gone() -> BTreeMap<String, RemovedContent> {
    let of = |texts: &[&str]| texts.iter().map(Digest::of).collect::<BTreeSet<_>>();
    let old = of(&["layer of old", "shared layer"]);
    let old = RemovedContent { manifests: of(&["old"]), blobs: old, ..RemovedContent::default() };
    let moved =
        RemovedContent { manifests: of(&["before"]), blobs: of(&["layer of before"]), ..RemovedContent::default() };
    [("a.b/old".to_owned(), old), ("a.b/moved".to_owned(), moved)].into()
}

fn unlinked() -> Op {
    RegistryUnlinked { data_dir: DATA.to_owned(), repositories: gone() }.into()
}

fn deleted() -> Op {
    RegistryBlobsRemoved { data_dir: DATA.to_owned(), repositories: gone() }.into()
}

fn has_blob(host: &Host, content: &str) -> bool {
    let hex = Digest::of(content).hex();
    host.machine.path(format!("{ROOT}/blobs/sha256/{}/{hex}/data", &hex[..2])).is_file()
}

#[test]
fn links_of_the_first_bundle_go_and_come_back_byte_for_byte() {
    let host = registry();
    let before = host.tree();
    let found = look(&host, &unlinked());
    assert!(!found.satisfied);
    converge(&host, &unlinked());
    let moved = format!("{ROOT}/repositories/a.b/moved/_manifests");
    assert!(
        !host.machine.path(format!("{ROOT}/repositories/a.b/old")).exists(),
        "a repository of which nothing is left"
    );
    assert_eq!(host.read(&format!("{moved}/tags/1/current/link")), Digest::of("now").to_string());
    for (folder, gone, stays) in [("revisions/sha256", "before", "now"), ("tags/1/index/sha256", "before", "now")] {
        assert!(!host.machine.path(format!("{moved}/{folder}/{}", Digest::of(gone).hex())).exists(), "{folder}");
        assert!(host.machine.path(format!("{moved}/{folder}/{}/link", Digest::of(stays).hex())).exists(), "{folder}");
    }
    let theirs = format!("{ROOT}/repositories/x/y/_layers/sha256/{}/link", Digest::of("layer of before").hex());
    assert!(host.machine.path(theirs).exists());
    for wave in Wave::ALL {
        dispatch::restore(&unlinked(), &host.machine, &found, wave).unwrap_or_else(|error| panic!("{}", error.full()));
    }
    same(&before, &host.tree(), "a rollback left a difference");
}

#[test]
fn blobs_go_that_no_repository_links_to_and_only_when_their_links_went() {
    let host = registry();
    assert!(look(&host, &deleted()).satisfied, "all of them have links");
    converge(&host, &deleted());
    assert!(has_blob(&host, "old") && has_blob(&host, "before"));
    converge(&host, &unlinked());
    assert!(!look(&host, &deleted()).satisfied);
    converge(&host, &deleted());
    for (content, stays) in [
        ("old", false),
        ("layer of old", false),
        ("before", false),
        ("layer of before", true), // somebody else's repository
        ("shared layer", true),
        ("now", true),
        ("layer of now", true),
    ] {
        assert_eq!(has_blob(&host, content), stays, "{content}");
    }
    assert!(host.machine.blob(&Digest::of("old")).is_file(), "the store is another op's");
    let traces = host.traces();
    converge(&host, &deleted());
    converge(&host, &unlinked());
    same(&traces, &host.traces(), "a second time something changed");
}

/// In one of our repositories, made of a layer of the first bundle.
#[test]
fn an_image_of_somebody_elses_in_the_same_repository_keeps_its_layers() {
    let host = registry();
    let layer = Digest::of("layer of before");
    let manifest =
        format!(r#"{{"config": {{"digest": "{}"}}, "layers": [{{"digest": "{layer}"}}]}}"#, Digest::of("their config"));
    let theirs = Digest::of(&manifest);
    let hex = theirs.hex();
    host.put(&format!("{ROOT}/blobs/sha256/{}/{hex}/data", &hex[..2]), &manifest);
    let own = format!("{ROOT}/repositories/a.b/moved");
    host.put(&format!("{own}/_manifests/revisions/sha256/{hex}/link"), theirs.to_string());
    host.put(&format!("{own}/_manifests/tags/team/current/link"), theirs.to_string());
    std::fs::remove_dir_all(host.machine.path(format!("{ROOT}/repositories/x"))).expect("only one of them");
    converge(&host, &unlinked());
    converge(&host, &deleted());
    assert!(host.machine.path(format!("{own}/_layers/sha256/{}/link", layer.hex())).exists());
    assert!(has_blob(&host, "layer of before") && !has_blob(&host, "before"));
    assert_eq!(host.read(&format!("{own}/_manifests/tags/team/current/link")), theirs.to_string());
}

/// The tag names what goes, and a bundle that is kept has another image of that name.
#[test]
fn a_tag_names_the_image_of_a_kept_bundle_again_and_comes_back() {
    let host = Host::fresh();
    layout(&host, &[("a.b/moved", "first")]);
    layout(&host, &[("a.b/moved", "second")]);
    let removed = RemovedContent {
        manifests: [Digest::of("second")].into(),
        blobs: [Digest::of("layer of second")].into(),
        tags: [("1".to_owned(), Digest::of("first"))].into(),
    };
    let op: Op =
        RegistryUnlinked { data_dir: DATA.to_owned(), repositories: [("a.b/moved".to_owned(), removed)].into() }.into();
    let (before, found) = (host.tree(), look(&host, &op));
    converge(&host, &op);
    let current = format!("{ROOT}/repositories/a.b/moved/_manifests/tags/1/current/link");
    assert_eq!(host.read(&current), Digest::of("first").to_string());
    for wave in Wave::ALL {
        dispatch::restore(&op, &host.machine, &found, wave).unwrap_or_else(|error| panic!("{}", error.full()));
    }
    same(&before, &host.tree(), "a rollback left a difference");
}

/// Another machine's `create` has brought the bundle back while the question waited.
#[test]
fn what_a_record_names_by_now_is_refused_and_nothing_of_it_goes() {
    let host = registry();
    let record = json!({
        "schema": SCHEMA, "listen": "0.0.0.0:5443", "store": "/var/lib/kubexm/store",
        "tls": {"cert": "/c", "key": "/k"}, "files": {},
        "images": {"a.b/old": {"tags": {"1": Digest::of("old")}, "manifests": [Digest::of("old")], "blobs": []}},
    });
    host.put(&record_path("v1-first"), record.to_string());
    let before = host.tree();
    let error = dispatch::converge(&unlinked(), &host.machine).expect_err("a refusal").full();
    assert!(error.contains("v1-first") && error.contains("registry prune"), "{error}");
    same(&before, &host.tree(), "something went");
}

/// What a removal took away is laid out again by the next run that wants it.
#[test]
fn the_first_bundle_is_laid_out_again() {
    let host = registry();
    converge(&host, &unlinked());
    converge(&host, &deleted());
    layout(&host, &[("a.b/old", "old"), ("a.b/moved", "before")]);
    assert!(has_blob(&host, "old") && has_blob(&host, "layer of before"));
}

const REPOSITORY: &str = "registry.k8s.io/pause";

fn pushed(host: &mut Host) {
    harbor(host);
    let made = projects(host, &["registry.k8s.io"], false);
    converge(host, &made.into());
    let image = |tag: &str, content: &str| HarborImage {
        repository: REPOSITORY.to_owned(),
        tag: Some(tag.to_owned()),
        manifest: host.blob(content),
        blobs: [host.blob(content), host.blob("layer")].into(),
    };
    for (tag, content) in [("3.9", "first"), ("3.10", "second"), ("3.11", "third")] {
        let images = [(format!("{REPOSITORY}:{tag}"), image(tag, content))].into();
        converge(host, &HarborImages { harbor: access(), images }.into());
    }
}

fn removed(images: &[(&str, &str)]) -> Op {
    let one = |(tag, content): &(&str, &str)| (Digest::of(content), [(*tag).to_owned()].into());
    let removed = RemovedImages { images: images.iter().map(one).collect(), ..RemovedImages::default() };
    HarborImagesRemoved { harbor: access(), repositories: [(REPOSITORY.to_owned(), removed)].into() }.into()
}

#[test]
fn images_go_from_harbor_with_the_tags_that_kubexm_gave_them() {
    let mut host = Host::fresh();
    pushed(&mut host);
    let state = |host: &Host| host.read("/run/kubexm-double/state.json");
    let before = state(&host);
    let op = removed(&[("3.9", "first"), ("3.10", "second")]);
    assert!(!look(&host, &op).satisfied);
    converge(&host, &op);
    let now = state(&host);
    for content in ["first", "second"] {
        let digest = Digest::of(content).to_string();
        assert!(before.contains(&digest) && !now.contains(&digest), "{content}: {now}");
    }
    assert!(now.contains("pause/3.11") && !now.contains("pause/3.10"), "{now}");
    converge(&host, &op);
    assert_eq!(state(&host), now, "a second time something changed");
}

#[test]
fn an_image_that_somebody_else_has_given_a_tag_stays_with_it() {
    let mut host = Host::fresh();
    pushed(&mut host);
    // Of another team, the same bytes under a name of its own.
    let theirs = HarborImage {
        repository: REPOSITORY.to_owned(),
        tag: Some("blessed".to_owned()),
        manifest: Digest::of("first"),
        blobs: [Digest::of("first"), Digest::of("layer")].into(),
    };
    let images = [(format!("{REPOSITORY}:blessed"), theirs)].into();
    converge(&host, &HarborImages { harbor: access(), images }.into());
    converge(&host, &removed(&[("3.9", "first")]));
    let now = host.read("/run/kubexm-double/state.json");
    assert!(now.contains("pause/blessed") && !now.contains("pause/3.9\""), "{now}");
}

#[test]
fn a_tag_that_nothing_has_any_more_is_given_to_the_image_of_a_kept_bundle() {
    let mut host = Host::fresh();
    pushed(&mut host);
    let removed = RemovedImages {
        images: [(Digest::of("second"), ["3.10".to_owned()].into())].into(),
        tags: [("3.10", "first"), ("3.11", "first")].map(|(tag, content)| (tag.to_owned(), Digest::of(content))).into(),
    };
    let op: Op =
        HarborImagesRemoved { harbor: access(), repositories: [(REPOSITORY.to_owned(), removed)].into() }.into();
    converge(&host, &op);
    let now: serde_json::Value = serde_json::from_str(&host.read("/run/kubexm-double/state.json")).expect("JSON");
    let names = |tag: &str| now["harbor"]["references"][format!("{REPOSITORY}/{tag}")].clone();
    assert_eq!(names("3.10"), Digest::of("first").to_string());
    assert_eq!(names("3.11"), Digest::of("third").to_string(), "something has it");
}

#[test]
fn a_harbor_that_does_not_run_is_unknown_and_nothing_is_done() {
    let host = Host::fresh();
    let op = removed(&[("3.9", "first")]);
    assert!(!look(&host, &op).satisfied);
    let error = dispatch::converge(&op, &host.machine).expect_err("a refusal").full();
    assert!(error.contains("was not started"), "{error}");
}
