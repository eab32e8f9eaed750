//! A bundle takes the place of a newer one, or of one of another signer, only when that is allowed.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use kubexm_engine::options::Drill;
use kubexm_engine::{OnFailure, Outcome};
use kubexm_plan::{BundleRecord, StepId};
use kubexm_session::{
    Access, Answer, BundleOptions, Home, HostOptions, RefusedReason, ReplaceOptions, RunOptions, Session, SessionError,
    TrustOptions, Unreachable, installed_bundle,
};
use kubexm_signing::{Algorithm, PrivateKey};
use kubexm_spec::{ExitCode, ExitError as _};

use crate::bundle::{cluster_yaml, sign, write_bundle_by};
use crate::sessions::{RUN, Site, create};

const HOSTS: [&str; 2] = ["red1", "red2"];
const OLDER: ReplaceOptions = ReplaceOptions { older: true, other_signer: false };
const NOTHING: ReplaceOptions = ReplaceOptions { older: false, other_signer: false };

/// A bundle of its own content, signed at a date.
fn bundle(site: &Site, tool: &str, key: &PrivateKey, date: i64) -> PathBuf {
    let folder = site.folder.path().join(tool);
    std::fs::create_dir_all(&folder).unwrap();
    let path = write_bundle_by(&folder, &cluster_yaml("red", &HOSTS), tool);
    sign(&path, key, date);
    path
}

fn trusts(home: &Home, key: &PrivateKey) {
    std::fs::create_dir_all(home.trusted_keys()).unwrap();
    std::fs::write(home.trusted_keys().join("release.pub"), key.public().to_pem()).unwrap();
}

fn options(bundle: &std::path::Path, replace: ReplaceOptions) -> BundleOptions {
    BundleOptions { bundle: vec![bundle.to_owned()], replace, ..BundleOptions::default() }
}

fn refused(error: SessionError) -> (RefusedReason, String) {
    assert_eq!(error.exit_code(), ExitCode::BundleUntrusted, "{error}");
    let SessionError::Replace(refused) = error else { unreachable!("{error}") };
    (refused.reason, refused.remembered_by)
}

fn dated(known: Option<BundleRecord>) -> Option<i64> {
    known.and_then(|known| known.date)
}

#[tokio::test]
async fn an_older_bundle_is_refused_by_controller_and_nodes_until_a_reset() {
    let site = Site::new("red", &HOSTS, Answer::Yes);
    let (key, cluster) = (PrivateKey::generate(Algorithm::Ed25519).unwrap(), site.home.cluster("red"));
    trusts(&site.home, &key);
    let [new, old] = [("new", 200), ("old", 100)].map(|(tool, date)| bundle(&site, tool, &key, date));
    let session = site.session();

    assert!(create(&session, &options(&new, NOTHING), RUN).await.unwrap().is_success());
    assert_eq!(dated(installed_bundle(&cluster).unwrap()), Some(200));
    let (connected, made) = (site.connected(), site.hosts.fleet.snapshot());

    let error = create(&session, &options(&old, NOTHING), RUN).await.unwrap_err();
    assert_eq!(refused(error), (RefusedReason::Older, "this controller".to_owned()));
    assert_eq!(site.connected(), connected, "nobody was connected to");

    // Another controller never saw the cluster; its nodes know.
    let elsewhere = Home::new(site.folder.path().join("elsewhere"), None, None);
    trusts(&elsewhere, &key);
    // The same operator's, which can open the cluster's CA.
    std::fs::copy(site.home.identity(), elsewhere.identity()).unwrap();
    let other = Session { home: &elsewhere, ..session.clone() };
    let error = create(&other, &options(&old, NOTHING), RUN).await.unwrap_err();
    assert_eq!(refused(error), (RefusedReason::Older, "red1".to_owned()));
    let agents = (site.connected() - connected, site.hosts.agents.removed.load(Ordering::Relaxed));
    assert_eq!(agents, (2, 2), "the agents are gone again");
    assert_eq!(site.hosts.fleet.snapshot(), made);
    assert_eq!(installed_bundle(&elsewhere.cluster("red")).unwrap(), None);

    assert!(create(&other, &options(&old, OLDER), RUN).await.unwrap().is_success());
    assert_eq!(dated(installed_bundle(&elsewhere.cluster("red")).unwrap()), Some(100));
    // What the nodes have now is what the other controller installed; the newer one goes without a word.
    assert!(create(&session, &options(&new, NOTHING), RUN).await.unwrap().is_success());

    assert!(site.reset().await.unwrap().is_success());
    assert_eq!(installed_bundle(&cluster).unwrap(), None);
    let hosts = HostOptions::default();
    let opened = session.open(&options(&old, NOTHING)).unwrap();
    let access = Access::obtain(&session, opened.cluster(), &TrustOptions::default(), &hosts).unwrap();
    let observed = session.observe("create", opened, &access, &hosts, Unreachable::Refused("")).await;
    assert!(observed.unwrap().leave().await.is_ok(), "neither this controller nor a node remembers");
}

#[tokio::test]
async fn a_run_of_an_older_bundle_is_not_resumed_over_what_another_run_has_installed_since() {
    let site = Site::new("red", &HOSTS, Answer::Yes);
    let key = PrivateKey::generate(Algorithm::Ed25519).unwrap();
    trusts(&site.home, &key);
    let [new, old] = [("new", 200), ("old", 100)].map(|(tool, date)| bundle(&site, tool, &key, date));
    let session = site.session();
    let drill = Some(Drill::FailStep(StepId("red2/os.stamp".to_owned())));
    let ended =
        create(&session, &options(&old, NOTHING), RunOptions { drill, on_failure: OnFailure::Keep, ..RUN }).await;
    let stopped = ended.unwrap().run.unwrap();
    assert_eq!(stopped.outcome, Outcome::Failed);
    assert_eq!(installed_bundle(&site.home.cluster("red")).unwrap(), None, "it has not ended well");
    assert!(create(&session, &options(&new, NOTHING), RUN).await.unwrap().is_success());

    let run = stopped.status.run;
    let opened = session.open(&options(&old, NOTHING)).unwrap();
    let Err(error) = session.run_to_resume(opened, Some(&run)) else { unreachable!("it is older") };
    assert_eq!(refused(error).0, RefusedReason::Older);
    let opened = session.open(&options(&old, OLDER)).unwrap();
    assert!(session.run_to_resume(opened, Some(&run)).is_ok());
}
