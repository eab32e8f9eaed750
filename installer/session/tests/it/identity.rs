//! A cluster of the same name is another cluster; and what is seen of one that runs.

use kubexm_engine::Outcome;
use kubexm_plan::facts::Stamp;
use kubexm_plan::{ClusterId, op};
use kubexm_session::{
    Access, Answer, BackedUp, BackupOptions, BackupPlace, ClusterOptions, HostOptions, Recipe, SessionError,
    TrustOptions, Unreachable,
};
use kubexm_spec::{ExitCode, ExitError as _};

use crate::sessions::{RUN, Site};

const AGENT: &str = "path:/usr/local/bin/kubexm-install";
const HOSTS: [&str; 3] = ["red1", "red2", "red3"];

async fn stamp(site: &Site, host: &str) -> Option<Stamp> {
    site.hosts.fleet.links()[host].facts().await.unwrap().stamp
}

/// Connecting puts the agent there, which the simulation does not.
fn put_agents(site: &Site) {
    let hosts = HOSTS.iter().filter(|host| !site.hosts.fleet.snapshot()[**host].contains_key(AGENT));
    hosts.for_each(|host| site.hosts.fleet.set_state(host, AGENT, "program"));
}

async fn reset(site: &Site, unreachable: Unreachable<'_>, only: &[&str]) -> Result<(), SessionError> {
    let only: Vec<String> = only.iter().map(|host| (*host).to_owned()).collect();
    let (session, hosts) = (site.session(), HostOptions::default());
    let cluster = ClusterOptions { file: Some(site.folder.path().join("cluster.yaml")), ..ClusterOptions::default() };
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &TrustOptions::default(), &hosts)?;
    let observed = session.observe("reset", source, &access, &hosts, unreachable).await?;
    let ended = observed.plan(&only).await?.check().await?.start(RUN).await?.finish().await;
    put_agents(site);
    ended.map(drop)
}

#[tokio::test]
async fn a_cluster_has_one_id_in_its_plan_and_all_its_stamps_and_keeps_it() {
    let site = Site::new("red", &HOSTS, Answer::Yes);
    site.create().await.unwrap();
    let id = stamp(&site, "red1").await.unwrap().id.expect("an id");
    for host in HOSTS {
        assert_eq!(stamp(&site, host).await.unwrap().id, Some(id), "{host}");
    }
    assert_eq!(site.plan(None).await.cluster_id, Some(id));
    let again = site.create().await.unwrap();
    assert_eq!(again.run.unwrap().status.counts.done, 0, "a second create changes nothing");

    reset(&site, Unreachable::Refused(""), &[]).await.unwrap();
    site.create().await.unwrap();
    assert_ne!(stamp(&site, "red1").await.unwrap().id, Some(id), "another cluster of the name is another one");
}

/// Without a check a create takes the host for a member, waits for its node, and rolls everything back.
#[tokio::test]
async fn a_host_that_a_reset_left_is_no_member_of_the_next_cluster_of_the_name() {
    let site = Site::new("red", &HOSTS, Answer::Yes);
    site.create().await.unwrap();
    let old = stamp(&site, "red3").await.unwrap().id.unwrap();
    site.hosts.fleet.disconnect("red3");
    reset(&site, Unreachable::Listed, &[]).await.unwrap();
    site.hosts.fleet.reconnect("red3");

    // Back before there is a new cluster: the control plane is free.
    let before = site.hosts.fleet.snapshot();
    let refused = site.create().await.unwrap_err();
    let text = refused.to_string();
    assert_eq!((refused.exit_code(), site.hosts.fleet.snapshot()), (ExitCode::Preflight, before), "{text}");
    assert!(text.contains(&old.to_string()) && text.contains("red1 belongs to none"), "{text}");

    // Back after there is one.
    let two = Site::of("red", &HOSTS, &crate::bundle::cluster_yaml("red", &HOSTS[..2]), crate::bundle::write_bundle);
    let hosts = crate::fleet::SimConnector { fleet: site.hosts.fleet.clone(), ..two.hosts };
    let two = Site { hosts, home: site.home.clone(), ..two };
    two.create().await.unwrap();
    let new = stamp(&site, "red1").await.unwrap().id.unwrap();
    let made = site.hosts.fleet.snapshot();
    let session = site.session();
    for recipe in [Recipe::Create, Recipe::AddNode(&[])] {
        let bundle = kubexm_session::BundleOptions { bundle: vec![site.bundle.clone()], ..Default::default() };
        let (opened, hosts) = (session.open(&bundle).unwrap(), HostOptions::default());
        let access = Access::obtain(&session, opened.cluster(), &bundle.trust, &hosts).unwrap();
        let observed = session.observe("plan", opened, &access, &hosts, Unreachable::Refused("")).await.unwrap();
        let Err(refused) = observed.plan(recipe).await else { unreachable!("red3 is another cluster's") };
        let text = refused.to_string();
        assert_eq!(refused.exit_code(), ExitCode::Preflight, "{text}");
        for said in [old.to_string(), new.to_string(), "reset -f cluster.yaml --only red3".to_owned()] {
            assert!(text.contains(&said), "{text}");
        }
    }
    assert_eq!(site.hosts.fleet.snapshot(), made);

    // A member is not reset alone; the host that is no member is, and joins.
    let refused = reset(&site, Unreachable::Refused(""), &["red2"]).await.unwrap_err();
    assert!(refused.exit_code() == ExitCode::Preflight && refused.to_string().contains(&new.to_string()), "{refused}");
    let refused = reset(&site, Unreachable::Refused(""), &["red9"]).await.unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::Config, "{refused}");
    reset(&site, Unreachable::Refused(""), &["red3"]).await.unwrap();
    assert_eq!((stamp(&site, "red3").await, stamp(&site, "red1").await.unwrap().id), (None, Some(new)));
    let ended = site.create().await.unwrap();
    assert_eq!(ended.run.unwrap().outcome, Outcome::Succeeded);
    assert_eq!(stamp(&site, "red3").await.unwrap().id, Some(new));
}

async fn view(site: &Site) -> Result<kubexm_session::ClusterView, SessionError> {
    let (session, hosts) = (site.session(), HostOptions::default());
    let cluster = ClusterOptions { file: Some(site.folder.path().join("cluster.yaml")), ..ClusterOptions::default() };
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &TrustOptions::default(), &hosts)?;
    session.view(&source, &access, &hosts).await
}

#[tokio::test]
async fn status_works_from_another_machine_without_a_lock_and_silent_hosts_are_gaps() {
    let site = Site::new("red", &HOSTS, Answer::Yes);
    site.create().await.unwrap();
    let made = site.hosts.fleet.snapshot();
    // Another home, which has never seen the cluster; and a run at work in the first one.
    let other = Site::of("red", &HOSTS, &crate::bundle::cluster_yaml("red", &HOSTS), crate::bundle::write_bundle);
    let other = Site { hosts: crate::fleet::SimConnector { fleet: site.hosts.fleet.clone(), ..other.hosts }, ..other };
    let _lock = kubexm_engine::ClusterLock::take(&other.home.cluster("red").folder, "red", "a run").unwrap();
    other.hosts.fleet.disconnect("red3");
    let seen = view(&other).await.unwrap();
    assert_eq!(seen.facts.id, stamp(&site, "red1").await.unwrap().id);
    assert_eq!((seen.cluster.as_str(), seen.facts.server_version.as_deref()), ("red", Some("v1.34.4")));
    assert_eq!(seen.facts.nodes.len(), 3);
    assert!(seen.facts.gaps.iter().any(|gap| gap.host == "red3" && gap.why.contains("cannot reach")), "{seen:#?}");
    assert_eq!(other.hosts.fleet.snapshot(), made);
    HOSTS.iter().for_each(|host| other.hosts.fleet.disconnect(host));
    assert_eq!(view(&other).await.unwrap_err().exit_code(), ExitCode::HostUnreachable);
}

/// Whoever is root on a host has it say this id of its cluster.
fn says(site: &Site, host: &str, id: ClusterId) {
    let stamp = op::Stamp { cluster: site.name.to_owned(), id: Some(id), bundle: None, adopted: false };
    site.hosts.fleet.set_state(host, "stamp", &serde_json::to_string(&stamp).unwrap());
}

async fn backup(site: &Site) -> Result<BackedUp, SessionError> {
    let (session, hosts) = (site.session(), HostOptions::default());
    let cluster = ClusterOptions { file: Some(site.folder.path().join("cluster.yaml")), ..ClusterOptions::default() };
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let to = BackupPlace::Folder(site.folder.path().join("backups"));
    session.backup(&source, &access, &hosts, &BackupOptions { to, keep: Some(1) }).await
}

/// Its id decides which backups are of the cluster, and which of them go.
#[tokio::test]
async fn no_backup_is_made_of_a_cluster_whose_control_planes_say_another_id() {
    let yaml = crate::bundle::cluster_yaml("red", &HOSTS).replace("master: [red1]", "master: [red1, red2]");
    let site = Site::of("red", &HOSTS, &yaml, crate::bundle::write_bundle);
    site.create().await.unwrap();
    let (id, other) = (stamp(&site, "red1").await.unwrap().id.unwrap(), ClusterId::from_random([7; 16]));
    // Simulated hosts make none: as far as it goes, it is asked for.
    let asked = backup(&site).await.unwrap_err();
    assert!(asked.to_string().contains("no backup can be made over this link"), "{asked}");

    says(&site, "red2", other);
    let refused = backup(&site).await.unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::HostUntrusted, "{refused}");
    for said in ["red2", &id.to_string(), &other.to_string(), "stamp.json"] {
        assert!(refused.to_string().contains(said), "{said}: {refused}");
    }
    // All of them: this home knows better.
    says(&site, "red1", other);
    let refused = backup(&site).await.unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::HostUntrusted, "{refused}");
    for said in ["authorities.json", &id.to_string(), &other.to_string()] {
        assert!(refused.to_string().contains(said), "{said}: {refused}");
    }
}

#[tokio::test]
async fn a_new_cluster_does_not_get_the_id_of_another_one_of_this_home() {
    let blue = Site::new("blue", &["blue1"], Answer::Yes);
    blue.create().await.unwrap();
    let id = stamp(&blue, "blue1").await.unwrap().id.unwrap();
    let red = Site { home: blue.home.clone(), ..Site::new("red", &HOSTS, Answer::Yes) };
    says(&red, "red3", id);
    let before = red.hosts.fleet.snapshot();
    let refused = red.create().await.unwrap_err();
    assert_eq!((refused.exit_code(), red.hosts.fleet.snapshot()), (ExitCode::HostUntrusted, before), "{refused}");
    for said in ["red3", "cluster blue", &id.to_string()] {
        assert!(refused.to_string().contains(said), "{said}: {refused}");
    }
    // One that was prepared before keeps its own.
    says(&red, "red3", ClusterId::from_random([7; 16]));
    red.create().await.unwrap();
    assert_eq!(stamp(&red, "red1").await.unwrap().id, Some(ClusterId::from_random([7; 16])));
}

#[tokio::test]
async fn a_node_is_not_added_to_a_cluster_of_another_minor() {
    let site = Site::new("red", &HOSTS, Answer::Yes);
    site.create().await.unwrap();
    site.hosts.fleet.set_state("(cluster)", "serverVersion", "v1.33.13");
    let (session, hosts) = (site.session(), HostOptions::default());
    let bundle = kubexm_session::BundleOptions { bundle: vec![site.bundle.clone()], ..Default::default() };
    let opened = session.open(&bundle).unwrap();
    let access = Access::obtain(&session, opened.cluster(), &bundle.trust, &hosts).unwrap();
    let observed = session.observe("plan", opened, &access, &hosts, Unreachable::Refused("")).await.unwrap();
    let Err(refused) = observed.plan(Recipe::AddNode(&["red2".to_owned()])).await else { unreachable!("1.33") };
    assert_eq!(refused.exit_code(), ExitCode::Preflight);
    assert!(refused.to_string().contains("v1.33.13"), "{refused}");
}
