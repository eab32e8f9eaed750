//! Hosts leave a cluster, through the library.

use kubexm_engine::Outcome;
use kubexm_engine::sim::Snapshot;
use kubexm_plan::BundleRecord;
use kubexm_plan::cluster_facts::{AppliedCluster, applied};
use kubexm_recipes::modules::record;
use kubexm_session::{Answer, Unreachable};
use kubexm_spec::cluster::{self, document};
use kubexm_spec::{Digest, ExitCode, ExitError as _};
use serde_json::json;

use crate::bad_input::{delete, show};
use crate::bundle::cluster_yaml;
use crate::sessions::{Answers, Site};

const HOSTS: [&str; 3] = ["red1", "red2", "red3"];

/// The hosts before the agent came.
fn without_agents(mut fleet: Snapshot) -> Snapshot {
    fleet.values_mut().for_each(|host| host.retain(|key, _| !key.ends_with("/kubexm-install")));
    fleet
}

#[tokio::test]
async fn several_hosts_leave_in_one_run_and_are_as_they_were() {
    let site = Site::new("red", &HOSTS, Answer::Yes);
    let fresh = without_agents(site.hosts.fleet.snapshot());
    site.create().await.unwrap();
    let ended = delete(&site, &["red2", "red3"], Unreachable::Refused("")).await.unwrap();
    assert_eq!((ended.exit_code(), ended.run.unwrap().outcome), (ExitCode::Ok, Outcome::Succeeded));
    let after = site.hosts.fleet.snapshot();
    for host in ["red2", "red3"] {
        assert_eq!(after[host], fresh[host], "{host}");
    }
    assert!(after["(cluster)"].keys().any(|key| key == "node:red1"), "{:?}", after["(cluster)"]);
    assert!(!after["(cluster)"].keys().any(|key| key.contains("red2") || key.contains("red3")));
    let again = delete(&site, &["red2", "red3"], Unreachable::Refused("")).await.unwrap();
    assert!(again.run.is_none() && again.is_success());
}

/// The cluster says that this was applied.
async fn applied(site: &Site, yaml: &str, program: &str) {
    let (name, document) = ("red".to_owned(), document(&cluster::parse(yaml).unwrap()));
    show(site, |facts| {
        facts.applied = Some(AppliedCluster {
            schema: applied::SCHEMA.to_owned(),
            name,
            id: facts.id,
            kubernetes: "v1.34.4".to_owned(),
            cluster_sha256: Digest::of("yaml"),
            cluster: applied::recorded(document),
            bundle: BundleRecord { manifest: Digest::of("m"), signers: Default::default(), date: None, sequence: None },
            program: program.to_owned(),
        });
    })
    .await;
}

#[tokio::test]
async fn a_cluster_yaml_that_is_not_what_was_applied_is_named_before_the_question() {
    let site = Site::new("red", &HOSTS, Answer::Yes);
    site.create().await.unwrap();
    let site = Site { answers: Answers::of(Answer::No), ..site };
    let said = async || {
        let earlier = site.events.events().len();
        let declined = delete(&site, &["red3"], Unreachable::Refused("")).await.unwrap_err();
        assert_eq!(declined.exit_code(), ExitCode::Declined, "{declined}");
        let events = site.events.events();
        let warnings = events[earlier..].iter().map(|event| serde_json::to_string(event).unwrap());
        warnings.filter(|event| event.contains("is not what was applied last")).collect::<Vec<_>>()
    };
    let now = cluster_yaml("red", &HOSTS);
    applied(&site, &now, record::PROGRAM).await;
    assert_eq!(said().await, Vec::<String>::new());
    // A host that was deleted while it was away is in no record any more.
    applied(&site, &cluster_yaml("red", &HOSTS[..2]), record::PROGRAM).await;
    assert_eq!(said().await, Vec::<String>::new());
    let other = now.replace("plugin: flannel", "plugin: flannel, podCidr: 10.99.0.0/16");
    applied(&site, &other, record::PROGRAM).await;
    let named = said().await;
    let [one] = named.as_slice() else { unreachable!("{named:?}") };
    assert!(one.contains("in spec.network.podCidr: the hosts leave as cluster.yaml describes them"), "{one}");
    assert!(one.contains("`kubexm-install create`"), "{one}");
    // An earlier program knew fewer fields.
    applied(&site, &now, "kubexm-install 0.0.1").await;
    show(&site, |facts| {
        let last = facts.applied.as_mut().unwrap();
        last.cluster["spec"]["network"].as_object_mut().unwrap().remove("podCidr");
        last.cluster["spec"]["network"]["plugin"] = json!("none");
    })
    .await;
    let named = said().await;
    assert!(named.len() == 1 && named[0].contains("in spec.network.plugin: "), "{named:?}");
}

#[tokio::test]
async fn a_host_that_was_gone_is_removed_from_the_cluster_and_cleaned_up_when_it_is_back() {
    let site = Site::new("red", &HOSTS, Answer::Yes);
    let fresh = without_agents(site.hosts.fleet.snapshot());
    site.create().await.unwrap();
    let as_it_was = site.hosts.fleet.snapshot()["red3"].clone();
    site.hosts.fleet.disconnect("red3");
    let works = delete(&site, &["red3"], Unreachable::Listed).await.unwrap_err();
    assert_eq!(works.exit_code(), ExitCode::Preflight, "{works}");
    assert!(works.to_string().contains("it works as a member of the cluster"), "{works}");
    show(&site, |facts| facts.nodes.iter_mut().for_each(|node| node.ready = node.name != "red3")).await;
    let refused = delete(&site, &["red3"], Unreachable::Refused("; --unreachable skip")).await.unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::HostUnreachable, "{refused}");
    assert!(refused.to_string().contains("red3") && refused.to_string().contains("--unreachable skip"), "{refused}");

    let ended = delete(&site, &["red3"], Unreachable::Listed).await.unwrap();
    assert_eq!(ended.exit_code(), ExitCode::RunPartial);
    assert_eq!(ended.missing, ["red3"]);
    let after = site.hosts.fleet.snapshot();
    assert_eq!(after["red3"], as_it_was, "nobody could do anything there");
    assert!(!after["(cluster)"].contains_key("node:red3"));

    // The debt: the same command, once it is back.
    site.hosts.fleet.reconnect("red3");
    show(&site, |facts| facts.nodes.retain(|node| node.name != "red3")).await;
    let ended = delete(&site, &["red3"], Unreachable::Listed).await.unwrap();
    assert_eq!((ended.exit_code(), ended.run.unwrap().outcome), (ExitCode::Ok, Outcome::Succeeded));
    let after = site.hosts.fleet.snapshot();
    assert_eq!(after["red3"], fresh["red3"]);
    assert!(after["red2"].contains_key("stamp"), "the others stay");
}
