//! What is no longer as it was applied.

use std::fs;
use std::path::PathBuf;

use kubexm_session::{
    Access, Answer, BundleOptions, Comparison, HostOptions, Recipe, SessionError, TrustOptions, Unreachable,
};
use kubexm_spec::{ExitCode, ExitError as _};

use crate::sessions::Site;

async fn compare(site: &Site, file: Option<PathBuf>) -> Result<Comparison, SessionError> {
    let (session, hosts) = (site.session(), HostOptions::default());
    let options = BundleOptions { bundle: vec![site.bundle.clone()], file, ..BundleOptions::default() };
    let opened = session.open(&options)?;
    let access = Access::obtain(&session, opened.cluster(), &TrustOptions::default(), &hosts)?;
    let observed = session.observe("drift", opened, &access, &hosts, Unreachable::Refused("")).await?;
    observed.plan(Recipe::Create).await?.check().await?.compare().await
}

#[tokio::test]
async fn hosts_are_compared_with_what_was_applied_and_left_as_they_are() {
    let site = Site::new("red", &["red1", "red2"], Answer::Yes);
    let error = compare(&site, None).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Preflight, "{error}");
    assert!(error.to_string().contains("not every host of cluster.yaml is in the cluster red yet"), "{error}");

    site.create().await.unwrap();
    let before = site.hosts.fleet.snapshot();
    let compared = compare(&site, None).await.unwrap();
    assert!(compared.is_same() && compared.drift.compared > 10, "{:?} {:?}", compared.drift, compared.fields);

    site.hosts.fleet.set_state("red2", "swap", "on");
    let drifted = site.hosts.fleet.snapshot();
    let compared = compare(&site, None).await.unwrap();
    let steps: Vec<String> = compared.drift.steps.iter().map(|step| step.step.to_string()).collect();
    assert_eq!(steps, ["red2/os.swap"]);
    assert!(!compared.is_same() && compared.fields.is_empty());
    assert_eq!(site.hosts.fleet.snapshot(), drifted, "nothing was changed");
    assert_ne!(before, drifted);

    let other = site.folder.path().join("other.yaml");
    let yaml = fs::read_to_string(site.folder.path().join("cluster.yaml")).unwrap();
    fs::write(&other, yaml.replace("- {name: red2,", "- {name: red2, labels: {zone: a},")).unwrap();
    let compared = compare(&site, Some(other)).await.unwrap();
    let steps: Vec<String> = compared.drift.steps.iter().map(|step| step.step.to_string()).collect();
    assert_eq!(
        steps,
        ["red2/os.swap", "red1/join.register-red2"],
        "the label is to be set; the record is no drift of its own"
    );
    assert_eq!(site.hosts.fleet.snapshot(), drifted, "nothing was changed");
    assert_eq!(site.home.cluster("red").run_ids().unwrap().len(), 1, "a comparison is no run");
}
