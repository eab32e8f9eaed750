//! What an operator may give by mistake, or find on a day: each is refused by name, with what to do, before anything is asked and before a host
//! is changed.

use std::path::{Path, PathBuf};

use kubexm_engine::sim::Snapshot;
use kubexm_plan::cluster_facts::TightBudget;
use kubexm_plan::{ClusterFacts, Facts, Pipeline};
use kubexm_session::{
    Access, Answer, BundleOptions, Drain, Ended, HostOptions, Recipe, Renew, SessionError, Unreachable, UpgradeOptions,
};
use kubexm_spec::{Arch, ExitCode, ExitError as _, error_chain};

use crate::adopt::options;
use crate::bundle::{cluster_yaml, write_bundle};
use crate::certs::renew;
use crate::sessions::{Answers, RUN, Site};

const HOSTS: [&str; 4] = ["red1", "red2", "red3", "red4"];
const A_DAY_MS: i64 = 86_400_000;

/// Three control planes and a worker of this version.
fn yaml(version: &str) -> String {
    cluster_yaml("red", &HOSTS).replace("master: [red1]", "master: [red1, red2, red3]").replace("v1.34.4", version)
}

async fn made(version: &str) -> Site {
    let site = Site::of("red", &HOSTS, &yaml(version), write_bundle);
    assert!(site.create().await.unwrap().is_success());
    site.answers.asked.lock().unwrap().clear();
    site
}

/// Another bundle, in a folder of its own.
fn bundle(site: &Site, yaml: &str) -> PathBuf {
    let folder = site.folder.path().join("other");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("cluster.yaml"), yaml).unwrap();
    write_bundle(&folder, yaml)
}

pub async fn upgrade(site: &Site, bundle: &Path) -> Result<Ended, SessionError> {
    let (session, hosts, upgrade) = (site.session(), HostOptions::default(), UpgradeOptions::default());
    // The operator's own, so that nobody is asked about whose it is.
    let file = Some(bundle.with_file_name("cluster.yaml"));
    let bundle = BundleOptions { bundle: vec![bundle.to_owned()], file, ..BundleOptions::default() };
    let opened = session.open(&bundle)?.for_pipeline(kubexm_plan::Pipeline::Upgrade);
    opened.check_remembered(&session)?;
    opened.check_closed_world()?;
    let access = Access::obtain(&session, opened.cluster(), &bundle.trust, &hosts)?;
    let verified = opened.verify(&session)?;
    let observed = session.observe("upgrade", verified, &access, &hosts, Unreachable::Refused("")).await?;
    observed.plan(Recipe::Upgrade(&upgrade)).await?.check().await?.start(RUN).await?.finish().await
}

pub async fn delete(site: &Site, names: &[&str], unreachable: Unreachable<'_>) -> Result<Ended, SessionError> {
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(site));
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let observed = session.observe("delete-node", source, &access, &hosts, unreachable).await?;
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    observed.plan_delete(&names, Drain::default()).await?.check().await?.start(RUN).await?.finish().await
}

/// What the cluster says of itself, changed.
pub async fn show(site: &Site, change: impl FnOnce(&mut ClusterFacts)) {
    let mut facts = site.hosts.fleet.links()["red1"].cluster_facts().await.unwrap();
    change(&mut facts);
    site.hosts.fleet.show_cluster(facts);
}

/// Whether a run was asked about; who is connected to with an unsigned bundle's addresses is asked before.
pub fn asked_of_a_run(site: &Site) -> bool {
    let asked = site.answers.asked.lock().unwrap();
    asked.iter().any(|asked| Pipeline::ALL.iter().any(|pipeline| asked.starts_with(&format!("{pipeline} of "))))
}

/// That it was refused, with these words.
pub fn refused<T>(site: &Site, before: &Snapshot, result: Result<T, SessionError>, code: ExitCode, words: &[&str]) {
    let Err(error) = result else { unreachable!("not refused, and it should say {words:?}") };
    let text = error_chain(&error);
    assert_eq!(error.exit_code(), code, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    assert!(!asked_of_a_run(site), "{words:?} is refused before the question");
    assert_eq!(site.hosts.fleet.snapshot(), *before, "{words:?} is refused before the first change");
}

/// Otherwise the refusals would show nothing.
#[tokio::test]
async fn a_bundle_of_the_next_patch_is_asked_about() {
    let site = Site { answers: Answers::of(Answer::No), ..made("v1.34.4").await };
    let next = bundle(&site, &yaml("v1.34.5"));
    let declined = upgrade(&site, &next).await.unwrap_err();
    assert_eq!(declined.exit_code(), ExitCode::Declined, "{declined}");
    assert!(asked_of_a_run(&site));
}

#[tokio::test]
async fn bundles_that_do_not_fit_the_cluster_are_refused() {
    let site = made("v1.33.13").await;
    let before = site.hosts.fleet.snapshot();
    let ahead = bundle(&site, &yaml("v1.35.4"));
    let words = ["minor versions cannot be skipped", "upgrade with a bundle of v1.34 first"];
    refused(&site, &before, upgrade(&site, &ahead).await, ExitCode::Preflight, &words);

    let site = made("v1.34.4").await;
    let before = site.hosts.fleet.snapshot();
    let older = bundle(&site, &yaml("v1.33.13"));
    let words = ["has v1.33.13, which is older", "use a bundle with v1.34.4 or a newer one"];
    refused(&site, &before, upgrade(&site, &older).await, ExitCode::Preflight, &words);

    let blue = bundle(&site, &yaml("v1.34.5").replace("{name: red}", "{name: blue}"));
    let words = [
        "FAIL red1: existing: found the stamp of cluster \"red\"",
        "use a bundle that was built from the cluster.yaml of \"red\"",
    ];
    refused(&site, &before, upgrade(&site, &blue).await, ExitCode::Preflight, &words);

    let next = bundle(&site, &yaml("v1.34.5"));
    site.hosts.fleet.bend_facts(|facts| facts.arch = (facts.host == "red4").then_some(Arch::Arm64).or(facts.arch));
    let words = ["red4", "arm64"];
    refused(&site, &before, upgrade(&site, &next).await, ExitCode::Preflight, &words);
}

#[tokio::test]
async fn a_cluster_that_cannot_do_without_a_node_now_is_not_upgraded_and_loses_none() {
    let site = made("v1.34.4").await;
    let before = site.hosts.fleet.snapshot();
    let minor = bundle(&site, &yaml("v1.35.4"));
    show(&site, |facts| {
        let member = facts.etcd.iter_mut().find(|member| member.name == "red2").unwrap();
        member.healthy = false;
        let name = "shop/web".to_owned();
        facts.tight_budgets.push(TightBudget { name, pods: 2, healthy: 2, wanted: 2 });
    })
    .await;
    let words = [
        "etcd's member red2 is not healthy",
        "`kubexm-install delete-node red2`",
        "PodDisruptionBudget shop/web wants 2 of its 2 pods at all times, so it never lets one go",
        "give its workload more replicas, or change the budget",
    ];
    refused(&site, &before, upgrade(&site, &minor).await, ExitCode::Preflight, &words);
    let words = ["red3", "not healthy: red2", "delete the dead ones first"];
    let deletion = delete(&site, &["red3"], Unreachable::Refused("")).await;
    refused(&site, &before, deletion, ExitCode::Preflight, &words);
}

/// Whether its pods are on the node that leaves is not known before: a warning, before the question.
#[tokio::test]
async fn a_budget_that_never_lets_go_is_named_before_a_node_is_deleted() {
    let site = made("v1.34.4").await;
    show(&site, |facts| {
        for (name, healthy) in [("shop/web", 2), ("shop/db", 1)] {
            let wanted = healthy;
            facts.tight_budgets.push(TightBudget { name: name.to_owned(), pods: 2, healthy, wanted });
        }
    })
    .await;
    let site = Site { answers: Answers::of(Answer::No), ..site };
    let before = site.hosts.fleet.snapshot();
    let declined = delete(&site, &["red4"], Unreachable::Refused("")).await.unwrap_err();
    assert_eq!(declined.exit_code(), ExitCode::Declined);
    assert_eq!(site.hosts.fleet.snapshot(), before);
    let events = site.events();
    for words in [
        "the PodDisruptionBudget shop/web wants 2 of its 2 pods at all times, so it never lets one go",
        "change the budget, before you continue",
        "the PodDisruptionBudget shop/db lets no pod go now (1 of 2 are healthy, and it wants 1)",
    ] {
        assert!(events.contains(words), "{words}: {events}");
    }
}

#[tokio::test]
async fn a_clock_that_is_off_by_a_day_is_refused_by_what_would_sign_or_install_with_it() {
    let ahead: fn(&mut Facts) = |facts| facts.clock_offset_ms = if facts.host == "red2" { A_DAY_MS } else { 0 };
    let fresh = Site::of("red", &HOSTS, &yaml("v1.34.4"), write_bundle);
    let before = fresh.hosts.fleet.snapshot();
    fresh.hosts.fleet.bend_facts(ahead);
    let words = ["red2", "86400.0 s", "timedatectl set-time"];
    refused(&fresh, &before, fresh.create().await, ExitCode::Preflight, &words);

    let site = made("v1.34.4").await;
    let before = site.hosts.fleet.snapshot();
    let next = bundle(&site, &yaml("v1.34.5"));
    site.hosts.fleet.bend_facts(ahead);
    refused(&site, &before, upgrade(&site, &next).await, ExitCode::Preflight, &words);
    let words = ["red2: its clock is 1 d 0 h ahead of this machine's", "timedatectl set-time"];
    refused(&site, &before, renew(&site, Renew::default()).await, ExitCode::Preflight, &words);
}
