//! What goes from a distribution registry or Harbor beside the depot.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::observed_state::ObservedState;
use kubexm_plan::op::{HarborAccess, HarborImage, HarborImages, LayoutDifference, MissingImages, RegistryLayout};
use kubexm_plan::{Op, Probe, StepId, Undo};
use kubexm_recipes::{Keep, Pruned};
use kubexm_spec::Digest;
use kubexm_spec::cluster::RegistryKind;
use kubexm_spec::depot::Repository;

use super::{Record, Site, bundle, fill, gone, name, one, sorted};

/// Its images are in a registry beside the depot, whose configuration names none; the hosts have the bundle with this manifest.
pub fn beside(site: &mut Site, kind: RegistryKind, bundle: &str) {
    site.cluster.registry.kind = kind;
    site.cluster.registry.port = 5000;
    for depot in site.depots.values_mut() {
        let config = depot.config.as_mut().unwrap();
        // All bundles have the same files, so what the depot is configured with says nothing of which one is there.
        config.images.clear();
    }
    for facts in site.facts.values_mut() {
        facts.stamp.as_mut().unwrap().bundle.as_mut().unwrap().manifest = Digest::of(bundle);
    }
}

/// A step that has put a bundle's images where there was nothing.
fn laid_out(site: &mut Site, images: BTreeMap<String, Repository>) {
    let data_dir = site.cluster.registry.data_dir.clone();
    let missing = [format!("{data_dir}/docker")].into();
    let before = ObservedState::new::<RegistryLayout>(&LayoutDifference { missing, changed: Vec::new() }, false);
    ran(site, "registry.fill", (RegistryLayout { data_dir, repositories: images }.into(), before.unwrap()));
}

fn ran(site: &mut Site, step: &str, (op, before): (Op, ObservedState)) {
    let host = "node1";
    let step = StepId(format!("{host}/{step}"));
    let record = Record { step, ops: vec![op], before: vec![before], ..fill("1", &[]) };
    site.ledgers.get_mut(host).unwrap().push(record);
}

#[test]
fn from_a_distribution_registry_goes_what_kubexm_laid_out_there_and_no_bundle_that_stays_has() {
    let mut site = one();
    beside(&mut site, RegistryKind::Registry, "three");
    for bundle in ["one", "two", "three"] {
        let images = site.depots["node1"].bundles[&name(bundle)].content.images.clone();
        laid_out(&mut site, images);
    }
    let steps = |pruned: &Pruned| pruned.plan.steps.iter().map(|step| step.id.to_string()).collect::<Vec<_>>();
    let pruned = site.plan(&[]).unwrap();
    let all = ["node1/prune.unused", "node1/prune.bundles", "node1/prune.registry", "node1/prune.blobs"];
    assert_eq!(steps(&pruned), all);
    let unlinked = |pruned: &Pruned| {
        let step = pruned.plan.steps.iter().find(|step| step.id.0 == "node1/prune.registry").unwrap().clone();
        let Some(Probe::RegistryLacks { url, manifests, login: None, .. }) = step.probe.map(|timed| timed.probe) else {
            panic!("it asks the registry")
        };
        assert!(url.ends_with(":5000") && !manifests.is_empty(), "{url} {manifests:?}");
        match step.ops.as_slice() {
            [Op::RegistryUnlinked(op)] => op.repositories.clone(),
            ops => panic!("{ops:?}"),
        }
    };
    let gone_now = unlinked(&pruned);
    assert_eq!(gone_now.keys().collect::<Vec<_>>(), ["a.b/moved", "a.b/one", "a.b/two"]);
    assert_eq!(gone_now["a.b/moved"].manifests, ["moved 1", "moved 2"].map(Digest::of).into());
    assert!(!gone_now["a.b/moved"].blobs.contains(&Digest::of("shared")), "the present one has it there");
    assert!(gone_now["a.b/one"].blobs.contains(&Digest::of("shared")), "nobody has it there");
    assert!(!gone(&pruned).contains(&"a.b/moved:1"), "the tag is the present bundle's before and after");
    let last = pruned.plan.steps.last().unwrap();
    assert!(matches!(last.ops.as_slice(), [Op::RegistryBlobsRemoved(_), Op::BlobsRemoved(_)]), "{last:#?}");
    assert!(last.after.iter().any(|id| id.0 == "node1/prune.registry"), "{last:#?}");

    let kept = site.plan(&[Keep::Name(name("one"))]).unwrap();
    assert_eq!(unlinked(&kept).keys().collect::<Vec<_>>(), ["a.b/moved", "a.b/two"]);
    assert_eq!(unlinked(&kept)["a.b/moved"].manifests, [Digest::of("moved 2")].into());

    // When it was done, and all other traces have gone with it.
    let ran_before = last.clone();
    site.ledgers.get_mut("node1").unwrap().push(Record { step: ran_before.id, ops: ran_before.ops, ..fill("2", &[]) });
    let depot = site.depots.get_mut("node1").unwrap();
    depot.bundles.retain(|bundle, _| *bundle == name("three"));
    depot.blobs.clear();
    assert_eq!(steps(&site.plan(&[]).unwrap()), Vec::<String>::new());
}

#[test]
fn from_harbor_go_the_images_that_kubexm_pushed_with_their_tags_when_the_depots_have_stopped() {
    let mut site = one();
    beside(&mut site, RegistryKind::Harbor, "three");
    for content in ["moved 1", "moved 2", "moved 3"] {
        pushed(&mut site, content);
    }
    let pruned = site.plan(&[]).unwrap();
    let step = pruned.plan.steps.iter().find(|step| step.id.0 == "node1/prune.harbor").unwrap();
    let [Op::HarborImagesRemoved(op)] = step.ops.as_slice() else { panic!("{step:#?}") };
    let gone = &op.repositories["a.b/moved"].images;
    assert_eq!(
        gone.keys().copied().collect::<Vec<_>>(),
        sorted(&["moved 1", "moved 2"]),
        "the third is the present one"
    );
    assert_eq!(gone[&Digest::of("moved 1")], ["1".to_owned()].into());
    assert!(op.harbor.registry.ends_with(":5000") && op.harbor.ca != "/ca", "as cluster.yaml has it: {:?}", op.harbor);
    let after = |step: &str, other: &str| {
        let step = pruned.plan.steps.iter().find(|found| found.id.0 == step).unwrap();
        step.after.iter().any(|id| id.0 == other)
    };
    assert!(
        after("node1/prune.blobs", "node1/prune.harbor"),
        "with the blobs the records go, by which it is asked what is used"
    );
    assert!(
        matches!(step.undo, Undo::Irreversible { .. }) && step.after.iter().any(|id| id.0 == "node1/prune.bundles")
    );
}

/// An image of a bundle, which Harbor lacked.
fn pushed(site: &mut Site, content: &str) {
    let image = HarborImage {
        repository: "a.b/moved".to_owned(),
        tag: Some("1".to_owned()),
        manifest: Digest::of(content),
        blobs: [Digest::of(content)].into(),
    };
    let harbor =
        HarborAccess { registry: "r".to_owned(), ca: "/ca".to_owned(), admin_password: "/password".to_owned() };
    let op = HarborImages { harbor, images: [("a.b/moved:1".to_owned(), image)].into() };
    let lacked = MissingImages::Known { missing: ["a.b/moved:1".to_owned()].into(), other: BTreeSet::new() };
    ran(site, "harbor.images", (op.into(), ObservedState::new::<HarborImages>(&lacked, false).unwrap()));
}

/// `one` and `two` have the tag, the present one does not: it names what `two` brought, and `one` is kept.
#[test]
fn a_tag_of_a_kept_bundle_names_its_image_again() {
    let of = |kind| {
        let mut site = one();
        beside(&mut site, kind, "three");
        let present = site.depots.get_mut("node1").unwrap().bundles.get_mut(&name("three")).unwrap();
        present.content.images.remove("a.b/moved");
        site
    };
    let keep = [Keep::Name(name("one"))];
    let mut site = of(RegistryKind::Registry);
    for bundle in ["one", "two", "three"] {
        let images = site.depots["node1"].bundles[&name(bundle)].content.images.clone();
        laid_out(&mut site, images);
    }
    let pruned = site.plan(&keep).unwrap();
    let op = pruned.plan.steps.iter().flat_map(|step| &step.ops).find_map(|op| match op {
        Op::RegistryUnlinked(op) => Some(op),
        _ => None,
    });
    assert_eq!(op.unwrap().repositories["a.b/moved"].tags, [("1".to_owned(), Digest::of("moved 1"))].into());
    assert!(gone(&pruned).contains(&"a.b/moved:1"), "it names another image afterwards");

    let mut site = of(RegistryKind::Harbor);
    for content in ["moved 1", "moved 2"] {
        pushed(&mut site, content);
    }
    let pruned = site.plan(&keep).unwrap();
    let op = pruned.plan.steps.iter().flat_map(|step| &step.ops).find_map(|op| match op {
        Op::HarborImagesRemoved(op) => Some(op),
        _ => None,
    });
    assert!(op.is_none(), "the last push is what a cluster may be about to have: {op:?}");
    let harbor =
        HarborAccess { registry: "r".to_owned(), ca: "/ca".to_owned(), admin_password: "/password".to_owned() };
    let other = HarborImages { harbor, images: BTreeMap::new() };
    let nothing = MissingImages::Known { missing: BTreeSet::new(), other: BTreeSet::new() };
    ran(&mut site, "harbor.images", (other.into(), ObservedState::new::<HarborImages>(&nothing, false).unwrap()));
    let pruned = site.plan(&keep).unwrap();
    let op = pruned.plan.steps.iter().flat_map(|step| &step.ops).find_map(|op| match op {
        Op::HarborImagesRemoved(op) => Some(op),
        _ => None,
    });
    let removed = &op.unwrap().repositories["a.b/moved"];
    assert_eq!(removed.images.keys().collect::<Vec<_>>(), [&Digest::of("moved 2")]);
    assert_eq!(removed.tags, [("1".to_owned(), Digest::of("moved 1"))].into());
}

/// Pods name the host with its port, and the registry's repositories cannot.
#[test]
fn an_image_of_a_host_with_a_port_is_asked_about_by_the_name_that_pods_use() {
    for (kind, folder) in [(RegistryKind::Registry, "localhost_5000/x"), (RegistryKind::Harbor, "localhost-5000/x")] {
        let mut site = one();
        beside(&mut site, kind, "three");
        let depot = site.depots.get_mut("node1").unwrap();
        depot.bundles.insert(name("four"), bundle(1, &[(folder, "x")]));
        let pruned = site.plan(&[]).unwrap();
        assert!(gone(&pruned).contains(&"localhost:5000/x:1"), "{:?}", gone(&pruned));
    }
}

/// No record is left of it, after a removal that ended between the records and the registry.
#[test]
fn what_only_the_ledger_knows_is_asked_about_before_it_goes() {
    let mut site = one();
    beside(&mut site, RegistryKind::Registry, "three");
    for bundle in ["one", "three"] {
        let images = site.depots["node1"].bundles[&name(bundle)].content.images.clone();
        laid_out(&mut site, images);
    }
    site.depots.get_mut("node1").unwrap().bundles.retain(|bundle, _| *bundle == name("three"));
    let pruned = site.plan(&[]).unwrap();
    assert!(gone(&pruned).contains(&"a.b/one:1"), "{:?}", gone(&pruned));
    assert!(!gone(&pruned).contains(&"a.b/moved:1"), "the present one has it");
}
