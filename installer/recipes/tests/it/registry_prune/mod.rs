//! What is removed from registry hosts: which bundles stay, which images go, and which blobs nothing names any more.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use kubexm_plan::depot::{DepotContent, RecordedBundle};
use kubexm_plan::facts::Stamp;
use kubexm_plan::ledger::{Outcome, Record, SCHEMA};
use kubexm_plan::op::Blobs;
use kubexm_plan::{BundleRecord, ClusterFacts, ClusterId, Facts, Op, Probe, StepId, Undo, lint};
use kubexm_recipes::{Keep, PruneContext, Pruned, RecipeError, registry_prune, sample};
use kubexm_spec::cluster::RegistryKind;
use kubexm_spec::depot::{self, DepotConfig, Repository, Tls};
use kubexm_spec::{Cluster, Digest};

mod beside;

use beside::beside;

const ID: ClusterId = ClusterId::from_random([1; 16]);

/// Of images by name, each with a layer of its own and one that all share.
fn config(images: &[(&str, &str)]) -> DepotConfig {
    let repository = |content: &str| Repository {
        tags: [("1".to_owned(), Digest::of(content))].into(),
        manifests: [Digest::of(content)].into(),
        blobs: [Digest::of(format!("layer of {content}")), Digest::of("shared")].into(),
    };
    DepotConfig {
        schema: depot::SCHEMA.to_owned(),
        listen: SocketAddr::from(([0, 0, 0, 0], 5443)),
        store: "/var/lib/kubexm/store".to_owned(),
        tls: Tls { cert: String::new(), key: String::new() },
        login: None,
        images: images.iter().map(|(name, content)| ((*name).to_owned(), repository(content))).collect(),
        files: BTreeMap::new(),
        packages: None,
    }
}

fn bundle(written: i64, images: &[(&str, &str)]) -> RecordedBundle {
    let content = config(images);
    RecordedBundle { digest: Digest::of(serde_json::to_string(&content).unwrap()), written, content }
}

fn name(of: &str) -> String {
    format!("v1.34.4-{}", &Digest::of(of).hex()[..16])
}

/// Three bundles, the last of which the cluster has. `moved:1` is another image in each.
fn depot() -> DepotContent {
    let now = [("a.b/moved", "moved 3"), ("a.b/now", "now")];
    let bundles = [
        (name("one"), bundle(1, &[("a.b/moved", "moved 1"), ("a.b/one", "one")])),
        (name("two"), bundle(2, &[("a.b/moved", "moved 2"), ("a.b/one", "one"), ("a.b/two", "two")])),
        (name("three"), bundle(3, &now)),
    ];
    let texts = ["moved 1", "moved 2", "moved 3", "one", "two", "now", "before there were records", "not ours"];
    let layers = texts.map(|text| format!("layer of {text}"));
    let all = texts.iter().map(|text| (*text).to_owned()).chain(layers).chain(["shared".to_owned()]);
    DepotContent {
        config: Some(config(&now)),
        bundles: bundles.into(),
        left: BTreeMap::new(),
        unreadable: BTreeMap::new(),
        blobs: all.map(|text| (Digest::of(&text), 10)).collect(),
    }
}

fn fill(run: &str, of: &[&str]) -> Record {
    let blobs = of.iter().map(|text| (Digest::of(text), 10)).collect();
    Record {
        schema: SCHEMA,
        run: run.to_owned(),
        sequence: 1,
        step: StepId("node1/store.fill".to_owned()),
        ops: vec![Blobs { blobs, depots: None, shared_at: None }.into()],
        undo: Undo::RestoreBefore,
        before: Vec::new(),
        outcome: Outcome::Done,
    }
}

struct Site {
    cluster: Cluster,
    facts: BTreeMap<String, Facts>,
    running: ClusterFacts,
    ledgers: BTreeMap<String, Vec<Record>>,
    depots: BTreeMap<String, DepotContent>,
}

impl Site {
    fn of(cluster: Cluster) -> Self {
        let mut facts = sample::all_facts(&cluster);
        for facts in facts.values_mut() {
            let manifest = Digest::of("three");
            let bundle = Some(BundleRecord { manifest, signers: Default::default(), date: None, sequence: None });
            facts.stamp = Some(Stamp {
                cluster: cluster.name.clone(),
                id: Some(ID),
                run: "run".to_owned(),
                bundle,
                adopted: false,
            });
            facts.joined = true;
        }
        let server_version = Some("v1.34.4".to_owned());
        let running = ClusterFacts { id: Some(ID), server_version, ..ClusterFacts::default() };
        let hosts = || cluster.registry_hosts().into_iter().map(|host| host.name.clone());
        let ledger = || vec![fill("1", &["before there were records"]), fill("2", &["now"])];
        let ledgers = hosts().map(|host| (host, ledger())).collect();
        let depots = hosts().map(|host| (host, depot())).collect();
        Self { cluster, facts, running, ledgers, depots }
    }

    fn plan(&self, keep: &[Keep]) -> Result<Pruned, RecipeError> {
        let Self { cluster, facts, running, ledgers, depots } = self;
        let cluster_digest = Digest::of("yaml");
        let pruned = registry_prune(&PruneContext { cluster, cluster_digest, running, facts, ledgers, depots, keep })?;
        lint::check(pruned.plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
        Ok(pruned)
    }

    fn refused(&self) -> String {
        self.plan(&[]).unwrap_err().to_string()
    }
}

fn one() -> Site {
    Site::of(sample::fleet(1, 1))
}

fn deleted(pruned: &Pruned, host: &str) -> Vec<Digest> {
    let ops = pruned.plan.steps.iter().filter(|step| step.host == host).flat_map(|step| &step.ops);
    ops.filter_map(|op| if let Op::BlobsRemoved(op) = op { Some(op.blobs.keys().copied()) } else { None })
        .flatten()
        .collect()
}

fn sorted(texts: &[&str]) -> Vec<Digest> {
    let mut all: Vec<Digest> = texts.iter().map(Digest::of).collect();
    all.sort();
    all
}

fn gone(pruned: &Pruned) -> Vec<&str> {
    match &pruned.gone {
        Some((_, Probe::ImagesUnused { images })) => images.iter().map(String::as_str).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_cluster_has_now_stays_and_what_only_others_named_or_brought_goes() {
    let pruned = one().plan(&[]).unwrap();
    let expected = [
        "moved 1",
        "layer of moved 1",
        "moved 2",
        "layer of moved 2",
        "one",
        "layer of one",
        "two",
        "layer of two",
        // By the ledger: no record names it.
        "before there were records",
    ];
    assert_eq!(deleted(&pruned, "node1"), sorted(&expected));
    assert_eq!(pruned.freed, [("node1".to_owned(), 90)].into());
    let steps: Vec<String> = pruned.plan.steps.iter().map(|step| step.id.to_string()).collect();
    assert_eq!(steps, ["node1/prune.unused", "node1/prune.bundles", "node1/prune.blobs"]);
    assert!(gone(&pruned).contains(&"a.b/one:1"));
    let digest = format!("a.b/moved@{}", Digest::of("moved 2"));
    assert!(gone(&pruned).contains(&digest.as_str()));
    assert!(!gone(&pruned).contains(&"a.b/moved:1"), "the tag is the present bundle's before and after");
}

#[test]
fn what_a_host_says_of_its_blobs_and_records_is_neither_too_large_for_a_sum_nor_a_line_of_its_own() {
    let mut site = one();
    let depot = site.depots.get_mut("node1").unwrap();
    depot.blobs.values_mut().for_each(|size| *size = u64::MAX);
    assert_eq!(site.plan(&[]).unwrap().freed, [("node1".to_owned(), u64::MAX)].into());
    let depot = site.depots.get_mut("node1").unwrap();
    depot.unreadable = [("/x\n\nnothing is wrong".to_owned(), "y\nz".repeat(10_000))].into();
    let refused = site.refused();
    assert!(refused.contains("nothing is wrong") && refused.lines().count() == 1 && refused.len() < 3_000, "{refused}");
}

#[test]
fn a_kept_bundle_keeps_its_images_and_blobs_and_a_tag_that_would_change_counts_as_gone() {
    let mut site = one();
    let now = site.depots.get_mut("node1").unwrap();
    now.config = Some(config(&[("a.b/now", "now")]));
    now.bundles.insert(name("three"), bundle(3, &[("a.b/now", "now")]));
    let pruned = site.plan(&[Keep::Name(name("one"))]).unwrap();
    assert!(!deleted(&pruned, "node1").contains(&Digest::of("one")));
    assert!(deleted(&pruned, "node1").contains(&Digest::of("two")));
    // The newest bundle's before; the one of `one` afterwards.
    assert!(gone(&pruned).contains(&"a.b/moved:1") && !gone(&pruned).contains(&"a.b/one:1"), "{:?}", gone(&pruned));
    let kept: Vec<bool> = pruned.bundles.iter().map(|one| one.kept).collect();
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 2, "{:?}", pruned.bundles);
    let pruned = site.plan(&[Keep::Manifest(Digest::of("one")), Keep::Manifest(Digest::of("two"))]).unwrap();
    assert!(pruned.gone.is_none());
    assert_eq!(pruned.plan.steps.len(), 1, "what the ledger knows alone: {:#?}", pruned.plan.steps);
}

/// One registry host invents a record by the version's name; the other one is honest.
#[test]
fn the_beginning_of_a_name_is_of_one_bundle_though_a_host_has_a_record_of_that_name() {
    let mut site = one();
    let of_two = name("two");
    let two = &of_two[..of_two.len() - 4];
    site.plan(&[Keep::Name(two.to_owned())]).unwrap();
    let depot = site.depots.get_mut("node1").unwrap();
    depot.bundles.insert(two.to_owned(), bundle(1, &[("a.b/x", "x")]));
    let error = site.plan(&[Keep::Name(two.to_owned())]).unwrap_err().to_string();
    assert!(error.contains("may be several bundles"), "{error}");
    site.plan(&[Keep::Name(of_two)]).unwrap();
}

#[test]
fn a_host_that_paused_with_an_earlier_bundle_keeps_that_one() {
    let mut site = one();
    let stamp = site.facts.get_mut("node2").unwrap().stamp.as_mut().unwrap();
    stamp.bundle.as_mut().unwrap().manifest = Digest::of("two");
    let pruned = site.plan(&[]).unwrap();
    assert!(!gone(&pruned).contains(&"a.b/two:1"));
    assert_eq!(deleted(&pruned, "node1"), sorted(&["moved 1", "layer of moved 1", "before there were records"]));
}

#[test]
fn what_the_last_run_brought_stays_also_if_the_depot_does_not_know_it_yet() {
    let mut site = one();
    site.ledgers.get_mut("node1").unwrap().push(fill("3", &["two", "layer of two"]));
    let pruned = site.plan(&[]).unwrap();
    let deleted = deleted(&pruned, "node1");
    assert!(!deleted.contains(&Digest::of("two")) && !deleted.contains(&Digest::of("layer of two")));
    assert!(deleted.contains(&Digest::of("one")));
}

/// Cut off when the depot had stopped to serve them and their blobs were there still.
#[test]
fn what_an_interrupted_removal_left_is_asked_for_once_more_and_goes() {
    let mut site = one();
    let depot = site.depots.get_mut("node1").unwrap();
    for bundle in ["one", "two"] {
        let recorded = depot.bundles.remove(&name(bundle)).unwrap();
        depot.left.insert(name(bundle), recorded);
    }
    let pruned = site.plan(&[]).unwrap();
    assert!(gone(&pruned).contains(&"a.b/one:1"), "somebody may use it");
    assert!(deleted(&pruned, "node1").contains(&Digest::of("layer of two")));
    let stopped = pruned.plan.steps.iter().find(|step| step.id.0 == "node1/prune.bundles").unwrap();
    assert!(stopped.ops.is_empty() && stopped.probe.is_some(), "{stopped:#?}");
    assert_eq!(pruned.bundles.len(), 1, "they are no bundles of the registry any more");
    assert!(site.plan(&[Keep::Name(name("one"))]).is_err());
    // When the blobs are gone, their records say nothing.
    site.depots.get_mut("node1").unwrap().blobs.clear();
    assert!(!site.plan(&[]).unwrap().plan.steps.iter().any(|step| step.id.0.starts_with("node1/prune.b")));
}

#[test]
fn every_registry_host_is_pruned_and_nothing_is_deleted_before_the_last_has_stopped_to_serve() {
    let mut cluster = sample::fleet(1, 2);
    cluster.role_groups.registry = vec!["node2".to_owned(), "node3".to_owned()];
    let pruned = Site::of(cluster).plan(&[]).unwrap();
    assert_eq!(deleted(&pruned, "node2"), deleted(&pruned, "node3"));
    for host in ["node2", "node3"] {
        let step = pruned.plan.steps.iter().find(|step| step.id.0 == format!("{host}/prune.blobs")).unwrap();
        let after: Vec<&str> = step.after.iter().map(|id| id.0.as_str()).collect();
        assert!(after.contains(&"node2/prune.bundles") && after.contains(&"node3/prune.bundles"), "{after:?}");
        let step = pruned.plan.steps.iter().find(|step| step.id.0 == format!("{host}/prune.bundles")).unwrap();
        let Some(Probe::DepotLacks { url, blobs, .. }) = step.probe.as_ref().map(|timed| &timed.probe) else {
            panic!("{step:#?}")
        };
        assert!(url.ends_with(":5443") && url.starts_with("https://10."), "its own address: {url}");
        assert!(!blobs.is_empty() && !blobs.contains(&Digest::of("before there were records")));
    }
}

#[test]
fn nothing_to_remove_is_a_plan_without_steps() {
    let mut site = one();
    let depot = site.depots.get_mut("node1").unwrap();
    depot.bundles.retain(|bundle, _| *bundle == name("three"));
    site.ledgers.clear();
    let pruned = site.plan(&[]).unwrap();
    assert!(pruned.plan.steps.is_empty() && pruned.gone.is_none(), "{:#?}", pruned.plan.steps);
    assert!(site.depots["node1"].blobs.contains_key(&Digest::of("not ours")), "what nobody knows stays");
}

#[test]
fn what_cannot_be_judged_is_refused_with_what_to_do() {
    let of = |change: fn(&mut Site)| {
        let mut site = one();
        change(&mut site);
        site.refused()
    };
    for (change, part) in [
        (of(|site| site.cluster.registry.kind = RegistryKind::External), "it is yours"),
        (
            of(|site| beside(site, RegistryKind::Registry, "another")),
            "has no record of the bundle that the cluster has now",
        ),
        (
            of(|site| beside(site, RegistryKind::Harbor, "another")),
            "has no record of the bundle that the cluster has now",
        ),
        (of(|site| site.cluster.registry.kind = RegistryKind::None), "has none"),
        (of(|site| drop(site.facts.remove("node2"))), "node2 was not reached"),
        (of(|site| site.facts.get_mut("node2").unwrap().stamp = None), "node2 does not say which bundle it has"),
        (of(|site| site.running.server_version = None), "the API server does not answer"),
        (of(|site| site.running.id = Some(ClusterId::from_random([2; 16]))), "the API server is of the one with id"),
        (
            of(|site| {
                site.facts.get_mut("node2").unwrap().stamp.as_mut().unwrap().id = Some(ClusterId::from_random([2; 16]))
            }),
            "node2 belongs to another cluster",
        ),
        (of(|site| site.depots.get_mut("node1").unwrap().config = None), "has no depot"),
        (
            of(|site| {
                let depot = site.depots.get_mut("node1").unwrap();
                depot.unreadable.insert("/etc/kubexm/depot/bundles/x.json".to_owned(), "no JSON".to_owned());
            }),
            "/etc/kubexm/depot/bundles/x.json cannot be read",
        ),
        (
            of(|site| {
                let depot = site.depots.get_mut("node1").unwrap();
                depot.bundles.insert("../../../shadow".to_owned(), bundle(1, &[]));
            }),
            "is no name of a record",
        ),
    ] {
        assert!(change.contains(part), "{part}: {change}");
    }
}
