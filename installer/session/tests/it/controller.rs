//! Steps on the controller: the operator's kubeconfig is kept by the plan, and rolled back like anything else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::Ordering;

use kubexm_engine::Outcome;
use kubexm_engine::options::Drill;
use kubexm_plan::{CONTROLLER, StepId, lint};
use kubexm_session::{Access, Answer, BundleOptions, HostOptions, RunOptions, TrustOptions, Unreachable, plan_file};

use kubexm_spec::{Digest, ExitCode};

use crate::bundle::{cluster_yaml, write_bundle};
use crate::sessions::{RUN, Site, create};

const KEPT: &str = "@controller/kubeconfig.operator";
const TEXT: &str = "red at 10.0.0.";

fn bundle(site: &Site) -> BundleOptions {
    BundleOptions { bundle: vec![site.bundle.clone()], ..BundleOptions::default() }
}

/// Every text below a folder, but for what a ledger keeps of files that were replaced.
fn texts(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: std::path::PathBuf| match path.is_dir() {
        true if path.ends_with("ledger/content") => String::new(),
        true => texts(&path),
        false => String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned(),
    };
    entries.map(text).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn the_operators_kubeconfig_is_a_step_whose_second_run_changes_nothing() {
    let site = Site::new("red", &["red1", "red2"], Answer::Yes);
    let home = site.home.cluster("red");
    let ended = site.create().await.unwrap();
    let made = ended.run.unwrap();
    assert!(made.status.steps.iter().any(|step| step.step == KEPT), "{:#?}", made.status);
    let kubeconfig = fs::read_to_string(home.kubeconfig()).unwrap();
    assert!(kubeconfig.starts_with(TEXT), "{kubeconfig}");
    assert_eq!((ended.kubeconfig, mode(&home.kubeconfig())), (Some(home.kubeconfig()), 0o600));
    let kept = texts(&home.runs()) + &texts(&home.folder.join("ledger")) + &site.events();
    assert!(kept.contains(KEPT) && !kept.contains(TEXT), "no journal, ledger, plan or event has what is in it");

    let again = site.create().await.unwrap().run.unwrap();
    assert_eq!((again.outcome, again.status.counts.done), (Outcome::Succeeded, 0), "{:#?}", again.status);

    // Another controller has none yet: adding hosts from there, or creating again, brings it.
    fs::remove_file(home.kubeconfig()).unwrap();
    let back = site.create().await.unwrap().run.unwrap();
    assert_eq!((back.outcome, back.status.counts.done), (Outcome::Succeeded, 1), "{:#?}", back.status);
    assert_eq!(fs::read_to_string(home.kubeconfig()).unwrap(), kubeconfig);
}

#[tokio::test]
async fn a_run_that_is_rolled_back_leaves_the_kubeconfig_as_it_was() {
    for before in [None, Some("of an earlier cluster\n")] {
        let site = Site::new("red", &["red1", "red2"], Answer::Yes);
        let path = site.home.cluster("red").kubeconfig();
        if let Some(text) = before {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        }
        let last = site.plan(None).await.steps.last().unwrap().id.clone();
        assert_ne!(last, StepId(KEPT.to_owned()));
        let run = RunOptions { drill: Some(Drill::FailStep(last)), ..RUN };
        let ended = create(&site.session(), &bundle(&site), run).await.unwrap().run.unwrap();
        assert_eq!(ended.outcome, Outcome::RolledBack, "{:#?}", ended.status);
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), before);
        if before.is_some() {
            assert_eq!(mode(&path), 0o640);
        }
    }
}

#[tokio::test]
async fn a_plan_of_an_earlier_program_has_no_such_step_and_ends_with_a_kubeconfig_all_the_same() {
    let site = Site::of("red", &["red1"], &cluster_yaml("red", &["red1"]), write_bundle);
    let mut plan = site.plan(None).await;
    plan.schema = 4;
    plan.steps.retain(|step| step.host != CONTROLLER);
    plan.slots.retain(|name, _| name.0 != "operator-kubeconfig");
    let (plan, _) = lint::check(plan).unwrap();
    let (session, hosts) = (site.session(), HostOptions::default());
    let opened = session.open(&bundle(&site)).unwrap();
    let access = Access::obtain(&session, opened.cluster(), &TrustOptions::default(), &hosts).unwrap();
    let verified = opened.verify(&session).unwrap();
    let observed = session.observe("create", verified, &access, &hosts, Unreachable::Refused("")).await.unwrap();
    let reviewed = plan_file::ReviewedPlan { plan, digest: Digest::of("plan.json") };
    let ended = observed.reviewed(reviewed).await.unwrap().start(RUN).await.unwrap().finish().await.unwrap();
    assert!(ended.is_success(), "{:#?}", ended.run);
    let asked = site.answers.asked.lock().unwrap().join("\n");
    assert!(asked.contains(&format!("a plan of a file with {}", Digest::of("plan.json"))), "{asked}");
    assert!(fs::read_to_string(ended.kubeconfig.unwrap()).unwrap().starts_with(TEXT));
    assert!(!site.home.cluster("red").folder.join("ledger").exists(), "nothing was done on the controller");
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_accepted_stops_the_run_and_what_was_kept_before_stays() {
    let site = Site::new("red", &["red1"], Answer::Yes);
    site.create().await.unwrap();
    let path = site.home.cluster("red").kubeconfig();
    let before = fs::read_to_string(&path).unwrap();
    site.hosts.agents.lies.store(true, Ordering::Relaxed);
    let ended = site.create().await.unwrap();
    assert_eq!(ended.exit_code(), ExitCode::HostUntrusted, "{:#?}", ended.run);
    assert!(site.events().contains("a field `exec`"), "the reason is reported");
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
}
