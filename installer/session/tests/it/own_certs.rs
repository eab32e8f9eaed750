//! A certificate of the cluster's own authorities is renewed from any operator's home, and stays with the cluster: not with a home.

use std::time::SystemTime;

use kubexm_engine::sim::Snapshot;
use kubexm_engine::{Drill, OnFailure, Outcome};
use kubexm_plan::{Pipeline, SEALED_AUTHORITIES, StepId};
use kubexm_session::{Access, Answer, Ended, HostOptions, Renew, RunOptions, SessionError, Unreachable};
use kubexm_spec::{ExitCode, ExitError as _};

use crate::adopt::options;
use crate::adopted_runs::{id, roll_back};
use crate::authorities::with_new_ca;
use crate::bundle::{cluster_yaml, write_bundle};
use crate::certs::renew;
use crate::fleet::SimConnector;
use crate::sessions::{NoSecrets, RUN, Site};

const HOSTS: [&str; 2] = ["red1", "red2"];
const DEPOT: &str = "path:/etc/kubexm/depot/tls.crt";
const CA: &str = "path:/etc/kubexm/registry-ca.crt";

/// Two control planes, the first of which serves the bundle; every certificate of it has ended.
fn site(operators: &[String]) -> Site {
    let named = operators.iter().map(|key| format!("{{name: bob, recipient: {key}}}"));
    let operators = format!("spec:\n  operators: [{}]\n", named.collect::<Vec<_>>().join(", "));
    let yaml =
        cluster_yaml("red", &HOSTS).replace("spec:\n", &operators).replace("master: [red1]", "master: [red1, red2]");
    Site { answers: crate::sessions::Answers::of(Answer::Yes), ..Site::of("red", &HOSTS, &yaml, write_bundle) }
}

async fn made(operators: &[String]) -> Site {
    let site = site(operators);
    assert!(site.create().await.unwrap().is_success());
    site
}

/// The hosts of a site, from another home.
fn from(hosts: &Site, other: Site) -> Site {
    Site { hosts: SimConnector { fleet: hosts.hosts.fleet.clone(), ..other.hosts }, ..other }
}

fn sealed(state: &Snapshot) -> [&String; 2] {
    HOSTS.map(|host| &state[host][&format!("path:{SEALED_AUTHORITIES}")])
}

/// How many steps of a `create` had something to do.
async fn differs(site: &Site) -> usize {
    site.create().await.unwrap().run.map_or(0, |run| run.status.counts.done)
}

async fn interrupted(site: &Site, step: &str) -> Result<Ended, SessionError> {
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(site));
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let verb = Pipeline::CertsRenew.name();
    let observed = session.observe(verb, source, &access, &hosts, Unreachable::Refused("")).await?;
    let drill = Some(Drill::FailStep(StepId(step.to_owned())));
    let run = RunOptions { drill, on_failure: OnFailure::Keep, ..RUN };
    observed.plan_renewal(Renew::default()).await?.check().await?.start(run).await?.finish().await
}

#[tokio::test]
async fn the_depots_certificate_is_renewed_once_and_is_that_of_every_home_from_then_on() {
    let bob = site(&[]);
    let key = [bob.home.recipient(&NoSecrets(None)).unwrap()];
    let alice = made(&key).await;
    let before = alice.hosts.fleet.snapshot();
    let ended = renew(&alice, Renew::default()).await.unwrap();
    assert_eq!(ended.run.unwrap().outcome, Outcome::Succeeded);
    let after = alice.hosts.fleet.snapshot();
    assert_ne!(after["red1"][DEPOT], before["red1"][DEPOT]);
    assert_eq!(HOSTS.map(|host| &after[host][CA]), HOSTS.map(|host| &before[host][CA]), "the CA is the same");
    let [one, other] = sealed(&after);
    assert!(one == other && one != sealed(&before)[0], "control planes have the new one, sealed");

    assert!(renew(&alice, Renew::default()).await.unwrap().run.is_none(), "there is nothing to do");
    assert_eq!(differs(&alice).await, 0, "nor for create");
    let bob = from(&alice, site(&key));
    // Bob is another home than the one whose key is named.
    let refused = renew(&bob, Renew { force: true, ..Renew::default() }).await.unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::Preflight, "{refused}");
    assert!(refused.to_string().contains("kubexm-install create"), "{refused}");
    assert_eq!(alice.hosts.fleet.snapshot(), after);
}

#[tokio::test]
async fn another_operator_renews_it_with_the_authorities_that_are_on_the_hosts() {
    let bob = site(&[]);
    let key = [bob.home.recipient(&NoSecrets(None)).unwrap()];
    let alice = made(&key).await;
    let file = bob.folder.path().join("cluster.yaml");
    std::fs::copy(alice.folder.path().join("cluster.yaml"), file).unwrap();
    let bob = from(&alice, bob);
    let before = alice.hosts.fleet.snapshot();
    let ended = renew(&bob, Renew::default()).await.unwrap();
    assert_eq!(ended.run.unwrap().outcome, Outcome::Succeeded);
    let after = alice.hosts.fleet.snapshot();
    assert_ne!(after["red1"][DEPOT], before["red1"][DEPOT]);
    // Her home has the earlier one, and takes over what the hosts have.
    assert!(renew(&alice, Renew::default()).await.unwrap().run.is_none());
    differs(&alice).await;
    assert_eq!(alice.hosts.fleet.snapshot()["red1"][DEPOT], after["red1"][DEPOT]);
}

#[tokio::test]
async fn a_renewal_that_is_rolled_back_leaves_nothing_that_a_create_would_change() {
    let site = made(&[]).await;
    let before = site.hosts.fleet.snapshot();
    let renewal = renew(&site, Renew::default()).await.unwrap();
    assert_ne!(site.hosts.fleet.snapshot(), before);
    let ended = roll_back(&site, Pipeline::CertsRenew, &id(&renewal)).await.unwrap();
    assert_eq!(ended.run.unwrap().outcome, Outcome::RolledBack);
    assert_eq!(site.hosts.fleet.snapshot(), before);
    differs(&site).await;
    assert_eq!(
        site.hosts.fleet.snapshot()["red1"][DEPOT],
        before["red1"][DEPOT],
        "the earlier one is the cluster's again"
    );
}

#[tokio::test]
async fn a_renewal_that_did_not_reach_every_control_plane_is_continued_by_the_same_command() {
    for step in ["red2/authorities.seal", "red1/certs.depot"] {
        let site = made(&[]).await;
        let before = site.hosts.fleet.snapshot();
        let ended = interrupted(&site, step).await.unwrap();
        assert_eq!(ended.run.unwrap().outcome, Outcome::Failed, "{step}");
        let half = site.hosts.fleet.snapshot();
        assert_ne!(sealed(&half)[0], sealed(&before)[0], "{step}");
        let ended = renew(&site, Renew::default()).await.unwrap();
        assert_eq!(ended.run.unwrap().outcome, Outcome::Succeeded, "{step}");
        let after = site.hosts.fleet.snapshot();
        assert_eq!(sealed(&after)[0], sealed(&after)[1], "{step}");
        assert_ne!(after["red1"][DEPOT], before["red1"][DEPOT], "{step}");
        assert_eq!(differs(&site).await, 0, "{step}");
    }
}

/// Also a CA that is made in place of another one.
#[tokio::test]
async fn a_new_authority_is_as_valid_as_cluster_yaml_wants() {
    let yaml = cluster_yaml("red", &HOSTS)
        .replace("v1.34.4}", "v1.34.4, certificateValidityPeriod: 200d, caCertificateValidityPeriod: 1000d}");
    let answers = crate::sessions::Answers::of(Answer::Yes);
    let site = Site { answers, ..Site::of("red", &HOSTS, &yaml, write_bundle) };
    let ends = || {
        let text = std::fs::read_to_string(site.home.cluster("red").pki().join("registry-ca.pem")).unwrap();
        let certificate = &text[..text.find("-----BEGIN PRIVATE KEY").unwrap()];
        let within = |days: &str| {
            let cluster = kubexm_spec::cluster::parse(&yaml.replace("200d", days)).unwrap();
            kubexm_engine::site_ca::unfit(certificate, None, SystemTime::now(), cluster.certificate_validity())
        };
        let too_soon = |days: &str| within(days).iter().any(|why| why.to_string().contains("it ends on"));
        [too_soon("998d"), too_soon("1000d")]
    };
    assert!(site.create().await.unwrap().is_success());
    assert_eq!(ends(), [false, true]);
    let first = std::fs::read(site.home.cluster("red").pki().join("registry-ca.pem")).unwrap();
    assert!(with_new_ca(&site).await.unwrap().is_success());
    assert_ne!(std::fs::read(site.home.cluster("red").pki().join("registry-ca.pem")).unwrap(), first);
    assert_eq!(ends(), [false, true]);
}
