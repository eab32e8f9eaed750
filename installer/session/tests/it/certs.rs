//! Certificates are looked at without a question, renewed after one, and not renewed again.

use kubexm_engine::Outcome;
use kubexm_plan::Pipeline;
use kubexm_session::{Access, Answer, ClusterOptions, Ended, HostOptions, Renew, SessionError, Unreachable};
use kubexm_spec::ExitError as _;

use crate::sessions::{RUN, Site};

fn options(site: &Site) -> ClusterOptions {
    ClusterOptions { file: Some(site.folder.path().join("cluster.yaml")), ..ClusterOptions::default() }
}

pub async fn renew(site: &Site, wanted: Renew) -> Result<Ended, SessionError> {
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(site));
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let verb = Pipeline::CertsRenew.name();
    let observed = session.observe(verb, source, &access, &hosts, Unreachable::Refused("")).await?;
    observed.plan_renewal(wanted).await?.check().await?.start(RUN).await?.finish().await
}

fn asked(site: &Site) -> Vec<String> {
    let asked = std::mem::take(&mut *site.answers.asked.lock().unwrap());
    asked.into_iter().filter(|asked| !asked.starts_with("drift: ")).collect()
}

#[tokio::test]
async fn certificates_that_have_ended_are_renewed_once() {
    let site = Site::new("red", &["red1", "red2"], Answer::Yes);
    site.create().await.unwrap();
    asked(&site);
    let ended = renew(&site, Renew::default()).await.unwrap();
    let run = ended.run.as_ref().unwrap();
    assert_eq!(run.outcome, Outcome::Succeeded, "{:#?}", run.status);
    assert_eq!(asked(&site), ["certs-renew of red"]);
    assert_eq!(ended.kubeconfig, Some(site.home.cluster("red").kubeconfig()));

    let after = site.hosts.fleet.snapshot();
    let again = renew(&site, Renew::default()).await.unwrap();
    assert!(again.run.is_none() && again.is_success(), "{:#?}", again.run);
    assert_eq!(asked(&site), Vec::<String>::new(), "there is nothing to ask about");
    assert_eq!(site.hosts.fleet.snapshot(), after);

    let forced = renew(&site, Renew { force: true, ..Renew::default() }).await.unwrap();
    assert_eq!(forced.run.unwrap().outcome, Outcome::Succeeded);
    assert_ne!(site.hosts.fleet.snapshot(), after, "with --force they are renewed again");
}

#[tokio::test]
async fn every_certificate_of_every_host_is_shown_without_a_question_and_without_a_change() {
    let site = Site::new("red", &["red1", "red2"], Answer::Yes);
    site.create().await.unwrap();
    asked(&site);
    let before = site.hosts.fleet.snapshot();
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(&site));
    let source = session.cluster(&cluster).unwrap();
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts).unwrap();
    let view = session.view(&source, &access, &hosts).await.unwrap();
    let named = |path: &str| view.facts.certificates.iter().any(|one| one.path == path && one.host == "red1");
    assert!(named("/etc/kubernetes/pki/apiserver.crt") && named("/etc/kubernetes/admin.conf"), "{:?}", view.facts);
    assert_eq!((site.hosts.fleet.snapshot(), asked(&site)), (before, Vec::new()));
}

#[tokio::test]
async fn a_declined_renewal_changes_nothing() {
    let made = Site::new("red", &["red1"], Answer::Yes);
    made.create().await.unwrap();
    let before = made.hosts.fleet.snapshot();
    let site = Site { answers: crate::sessions::Answers::of(Answer::No), ..made };
    let error = renew(&site, Renew::default()).await.unwrap_err();
    assert_eq!(error.exit_code(), kubexm_spec::ExitCode::Declined);
    assert_eq!(site.hosts.fleet.snapshot(), before);
}
