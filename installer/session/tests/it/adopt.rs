//! A cluster that kubeadm has made is looked at without a change, adopted once, and not changed by what would replace what others made.

use kubexm_engine::Outcome;
use kubexm_plan::{Pipeline, op};
use kubexm_recipes::sample_adoption;
use kubexm_session::{
    Access, AdoptedFrom, AdoptionView, Answer, ClusterOptions, Ended, HostOptions, SessionError, Unreachable, Verdict,
};
use kubexm_spec::{ExitCode, ExitError as _};

use crate::sessions::{RUN, Site};

pub fn options(site: &Site) -> ClusterOptions {
    ClusterOptions { file: Some(site.folder.path().join("cluster.yaml")), ..ClusterOptions::default() }
}

/// Hosts of a cluster that agrees with its cluster.yaml.
fn site(answer: Answer) -> Site {
    let site = Site::new("red", &["red1", "red2"], answer);
    let source = site.session().cluster(&options(&site)).unwrap();
    site.hosts.fleet.show_cluster(sample_adoption::running(source.cluster()));
    site
}

async fn look(site: &Site) -> Result<AdoptionView, SessionError> {
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(site));
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    session.adoption(&source, &access, &hosts).await
}

pub async fn adopt(site: &Site) -> Result<Ended, SessionError> {
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(site));
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let observed = session.observe(Pipeline::Adopt.name(), source, &access, &hosts, Unreachable::Refused("")).await?;
    observed.plan_adoption().await?.check().await?.start(RUN).await?.finish().await
}

#[tokio::test]
async fn a_look_changes_nothing_and_an_adoption_only_the_stamps() {
    let site = site(Answer::Yes);
    let before = site.hosts.fleet.snapshot();
    let view = look(&site).await.unwrap();
    assert_eq!(view.adoption.origin, AdoptedFrom::Foreign);
    assert_eq!(view.adoption.in_the_way(), Vec::<String>::new());
    assert_eq!(site.hosts.fleet.snapshot(), before, "it only looks");
    assert!(!site.home.cluster("red").folder.exists(), "no lock, no run");

    let ended = adopt(&site).await.unwrap();
    assert_eq!(ended.run.unwrap().outcome, Outcome::Succeeded);
    let mut after = site.hosts.fleet.snapshot();
    for host in ["red1", "red2"] {
        let stamp = after.get_mut(host).unwrap().remove("stamp").unwrap();
        assert!(stamp.contains("\"adopted\":true"), "{stamp}");
    }
    assert_eq!(after, before, "nothing but stamps");

    let view = look(&site).await.unwrap();
    assert_eq!((view.adoption.origin, view.facts.id.is_some()), (AdoptedFrom::Adopted, true));
    let runs = site.home.cluster("red").run_ids().unwrap().len();
    let again = adopt(&site).await.unwrap();
    assert!(again.run.is_none() && again.is_success());
    assert_eq!(site.home.cluster("red").run_ids().unwrap().len(), runs, "a second one is no run");
}

#[tokio::test]
async fn an_adopted_cluster_is_left_alone_by_what_would_replace_or_remove_what_others_made() {
    let site = site(Answer::Yes);
    adopt(&site).await.unwrap();
    let before = site.hosts.fleet.snapshot();
    let refused = site.create().await.unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::Unsupported, "{refused}");
    assert!(refused.to_string().contains("`kubexm-install create`"), "{refused}");
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(&site));
    for pipeline in [Pipeline::Reset, Pipeline::DeleteNode, Pipeline::RegistryPrune] {
        let source = session.cluster(&cluster).unwrap();
        let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts).unwrap();
        let observed =
            session.observe(pipeline.name(), source, &access, &hosts, Unreachable::Refused("")).await.unwrap();
        let refused = match pipeline {
            Pipeline::Reset => observed.plan(&[]).await.err(),
            Pipeline::DeleteNode => observed.plan_delete(&["red2".to_owned()], Default::default()).await.err(),
            _ => observed.plan_prune(&[]).await.err(),
        };
        let refused = refused.unwrap_or_else(|| panic!("{pipeline} is planned"));
        assert_eq!(refused.exit_code(), ExitCode::Unsupported, "{refused}");
        assert!(refused.to_string().contains(pipeline.command()), "{refused}");
    }
    assert_eq!(site.hosts.fleet.snapshot(), before);
}

/// An adopted cluster has no authorities in the home: its last run says its id.
#[tokio::test]
async fn an_adopted_cluster_does_not_get_the_id_of_another_one_of_this_home() {
    let red = site(Answer::Yes);
    adopt(&red).await.unwrap();
    let id = look(&red).await.unwrap().facts.id;
    let blue = Site { home: red.home.clone(), ..Site::new("blue", &["blue1", "blue2"], Answer::Yes) };
    let source = blue.session().cluster(&options(&blue)).unwrap();
    blue.hosts.fleet.show_cluster(sample_adoption::running(source.cluster()));
    let stamp = op::Stamp { cluster: "blue".to_owned(), id, bundle: None, adopted: true };
    blue.hosts.fleet.set_state("blue2", "stamp", &serde_json::to_string(&stamp).unwrap());
    let before = blue.hosts.fleet.snapshot();
    let refused = adopt(&blue).await.unwrap_err();
    assert_eq!((refused.exit_code(), blue.hosts.fleet.snapshot()), (ExitCode::HostUntrusted, before), "{refused}");
    assert!(refused.to_string().contains("blue2") && refused.to_string().contains("cluster red"), "{refused}");
}

#[tokio::test]
async fn a_rolled_back_adoption_leaves_the_hosts_as_they_were() {
    let site = site(Answer::Yes);
    let before = site.hosts.fleet.snapshot();
    let run = adopt(&site).await.unwrap().run.unwrap();
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(&site));
    let source = session.cluster(&cluster).unwrap();
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts).unwrap();
    let loaded = session.ledger_run_to_roll_back(Pipeline::Adopt, source, access, Some(&run.status.run)).unwrap();
    let ended = loaded.roll_back(&hosts, &RUN, false).await.unwrap();
    assert_eq!(ended.run.unwrap().outcome, Outcome::RolledBack);
    assert_eq!(site.hosts.fleet.snapshot(), before);
    assert_eq!(look(&site).await.unwrap().adoption.origin, AdoptedFrom::Foreign);
}

#[tokio::test]
async fn what_is_in_the_way_is_said_with_what_to_do_and_nothing_is_changed() {
    let site = site(Answer::Yes);
    site.hosts.fleet.set_state("red2", "stamp", "other");
    let before = site.hosts.fleet.snapshot();
    let view = look(&site).await.unwrap();
    let [item] = view.adoption.of_verdict(Verdict::InTheWay).collect::<Vec<_>>()[..] else { panic!("{view:#?}") };
    assert_eq!((item.host.as_deref(), item.what), (Some("red2"), "stamp"));
    let refused = adopt(&site).await.unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::Preflight, "{refused}");
    assert!(refused.to_string().contains("that of cluster \"other\""), "{refused}");
    assert_eq!(site.hosts.fleet.snapshot(), before);
    assert!(site.home.cluster("red").run_ids().unwrap().is_empty());
}
