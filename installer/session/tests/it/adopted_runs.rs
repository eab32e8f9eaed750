//! Renewals of an adopted cluster, and runs of before it was adopted.

use kubexm_engine::sim::Failure;
use kubexm_engine::{OnFailure, Outcome};
use kubexm_plan::Pipeline;
use kubexm_plan::cluster_facts::Certificate;
use kubexm_plan::kubeadm_certificates::MANAGED;
use kubexm_recipes::sample_adoption;
use kubexm_session::{
    Access, Answer, BundleOptions, Ended, Home, HostOptions, Renew, RunOptions, SessionError, Unreachable,
};
use kubexm_spec::{Digest, ExitCode, ExitError as _};

use crate::adopt::{adopt, options};
use crate::certs::renew;
use crate::sessions::{RUN, Site};

const HOSTS: [&str; 2] = ["red1", "red2"];
const ALL: Renew = Renew { within_s: 0, force: true, authorities: false };

/// The hosts forget that kubexm has made them: to somebody else it is a cluster of kubeadm's.
fn forget(site: &Site) {
    site.hosts.fleet.remove_state("stamp");
    let source = site.session().cluster(&options(site)).unwrap();
    let mut seen = sample_adoption::running(source.cluster());
    for host in &source.cluster().role_groups.control_plane {
        seen.certificates.extend(MANAGED.map(|(name, path)| Certificate {
            host: host.clone(),
            path: path.to_owned(),
            subject: name.to_owned(),
            ends: i64::MAX,
            file: Some(Digest::of(path)),
            leaf: None,
        }));
    }
    site.hosts.fleet.show_cluster(seen);
}

async fn made() -> Site {
    let site = Site::new("red", &HOSTS, Answer::Yes);
    site.create().await.unwrap();
    site
}

pub fn id(ended: &Ended) -> String {
    ended.run.as_ref().unwrap().status.run.clone()
}

pub async fn roll_back(site: &Site, pipeline: Pipeline, run: &str) -> Result<Ended, SessionError> {
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(site));
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let loaded = session.ledger_run_to_roll_back(pipeline, source, access, Some(run))?;
    loaded.roll_back(&hosts, &RUN, false).await
}

fn refused(result: Result<Ended, SessionError>, words: &str) {
    let error = result.unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Unsupported);
}

#[tokio::test]
async fn an_adopted_cluster_is_renewed_and_the_renewal_is_rolled_back() {
    let site = made().await;
    forget(&site);
    adopt(&site).await.unwrap();
    let before = site.hosts.fleet.snapshot();
    let renewal = renew(&site, ALL).await.unwrap();
    assert_eq!(renewal.run.as_ref().unwrap().outcome, Outcome::Succeeded);
    let after = site.hosts.fleet.snapshot();
    assert_ne!(after["red1"], before["red1"]);
    assert_eq!(after["red2"], before["red2"], "a worker has none of these");
    let ended = roll_back(&site, Pipeline::CertsRenew, &id(&renewal)).await.unwrap();
    assert_eq!(ended.run.unwrap().outcome, Outcome::RolledBack);
    assert_eq!(site.hosts.fleet.snapshot(), before);
}

#[tokio::test]
async fn an_adoption_that_is_rolled_back_leaves_the_renewed_certificates_and_nothing_to_roll_them_back_with() {
    let site = made().await;
    forget(&site);
    let adoption = adopt(&site).await.unwrap();
    let renewal = renew(&site, ALL).await.unwrap();
    let renewed = site.hosts.fleet.snapshot();
    let ended = roll_back(&site, Pipeline::Adopt, &id(&adoption)).await.unwrap();
    assert_eq!(ended.run.unwrap().outcome, Outcome::RolledBack);
    let mut after = site.hosts.fleet.snapshot();
    for host in HOSTS {
        let stamp = renewed[host].get("stamp").unwrap().clone();
        assert!(after.get_mut(host).unwrap().insert("stamp".to_owned(), stamp).is_none(), "{host}");
    }
    assert_eq!(after, renewed, "nothing but the stamps has gone");

    let before = site.hosts.fleet.snapshot();
    refused(roll_back(&site, Pipeline::CertsRenew, &id(&renewal)).await, "the renewed ones stay");
    assert_eq!(site.hosts.fleet.snapshot(), before);
    adopt(&site).await.unwrap();
    let error = roll_back(&site, Pipeline::CertsRenew, &id(&renewal)).await.unwrap_err();
    assert!(error.to_string().contains("was followed by run"), "{error}");
}

#[tokio::test]
async fn an_adoption_is_not_rolled_back_below_a_renewal_that_is_half_done() {
    let site = made().await;
    forget(&site);
    let adoption = adopt(&site).await.unwrap();
    site.hosts.fleet.fail_at(Failure::After(1));
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(&site));
    let source = session.cluster(&cluster).unwrap();
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts).unwrap();
    let verb = Pipeline::CertsRenew.name();
    let observed = session.observe(verb, source, &access, &hosts, Unreachable::Refused("")).await.unwrap();
    let checked = observed.plan_renewal(ALL).await.unwrap().check().await.unwrap();
    let kept = RunOptions { on_failure: OnFailure::Keep, ..RUN };
    let half = checked.start(kept).await.unwrap().finish().await.unwrap();
    assert_eq!(half.run.as_ref().unwrap().outcome, Outcome::Failed);

    let error = roll_back(&site, Pipeline::Adopt, &id(&adoption)).await.unwrap_err();
    assert!(error.to_string().contains(&format!("was followed by run {}", id(&half))), "{error}");
    renew(&site, ALL).await.unwrap();
    roll_back(&site, Pipeline::Adopt, &id(&adoption)).await.unwrap();
}

/// Another home does not know what the first one has done.
async fn adopted_elsewhere(site: &mut Site) {
    let here = std::mem::replace(&mut site.home, Home::new(site.folder.path().join("elsewhere"), None, None));
    forget(site);
    adopt(site).await.unwrap();
    site.home = here;
}

#[tokio::test]
async fn a_create_of_before_the_adoption_is_not_rolled_back() {
    let mut site = Site::new("red", &HOSTS, Answer::Yes);
    let creation = site.create().await.unwrap();
    adopted_elsewhere(&mut site).await;
    let before = site.hosts.fleet.snapshot();
    let (session, hosts) = (site.session(), HostOptions::default());
    let bundle = BundleOptions { bundle: vec![site.bundle.clone()], ..BundleOptions::default() };
    let loaded = session.run_to_roll_back(session.open(&bundle).unwrap(), Some(&id(&creation))).unwrap();
    refused(loaded.roll_back(&hosts, &RUN, false).await, "was adopted since");
    assert_eq!(site.hosts.fleet.snapshot(), before);
}

#[tokio::test]
async fn a_renewal_of_an_earlier_cluster_of_the_name_is_not_rolled_back_into_the_adopted_one() {
    let mut site = made().await;
    let renewal = renew(&site, ALL).await.unwrap();
    adopted_elsewhere(&mut site).await;
    let before = site.hosts.fleet.snapshot();
    refused(roll_back(&site, Pipeline::CertsRenew, &id(&renewal)).await, "an earlier cluster of that name");
    assert_eq!(site.hosts.fleet.snapshot(), before);
}
