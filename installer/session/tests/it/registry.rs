//! Bundles are listed, kept by name and by file, removed with their blobs after a question, and not while something uses them.

use std::path::{Path, PathBuf};

use kubexm_engine::Outcome;
use kubexm_engine::sim::Snapshot;
use kubexm_plan::Pipeline;
use kubexm_session::{
    Access, Answer, BundleOptions, ClusterOptions, Ended, HostOptions, Keep, RegistryView, SessionError, Unreachable,
    bundle_manifest,
};
use kubexm_spec::{ExitCode, ExitError as _};
use tempfile::TempDir;

use crate::bundle::{cluster_yaml, write_bundle};
use crate::sessions::{Answers, RUN, Site};

const HOSTS: [&str; 2] = ["red1", "red2"];
const OLD: &str = "docker.io/library/busybox:1";

/// A cluster that was created with one bundle and then with another, which lacks an image of the first.
struct Two {
    site: Site,
    first: PathBuf,
    _folder: TempDir,
}

impl Two {
    async fn bundles() -> Self {
        Self::bundles_of("").await
    }

    /// With further lines of `spec` in both cluster.yaml.
    async fn bundles_of(more: &str) -> Self {
        let (folder, yaml) = (tempfile::tempdir().unwrap(), format!("{}{more}", cluster_yaml("red", &HOSTS)));
        let with = format!("{yaml}  bundle: {{extraImages: [{{name: \"{OLD}\"}}]}}\n");
        let mut site = Site::of("red", &HOSTS, &with, write_bundle);
        site.create().await.unwrap();
        let first = std::mem::replace(&mut site.bundle, write_bundle(folder.path(), &yaml));
        std::fs::write(site.folder.path().join("cluster.yaml"), &yaml).unwrap();
        site.create().await.unwrap();
        asked(&site);
        Self { site, first, _folder: folder }
    }

    fn name(&self, bundle: &Path) -> String {
        format!("v1.34.4-{}", &bundle_manifest(bundle).unwrap().hex()[..16])
    }

    fn blobs(&self) -> usize {
        of_host(&self.site.hosts.fleet.snapshot(), "blob:", "present")
    }
}

fn of_host(snapshot: &Snapshot, prefix: &str, value: &str) -> usize {
    snapshot["red1"].iter().filter(|(key, has)| key.starts_with(prefix) && *has == value).count()
}

fn options(site: &Site) -> ClusterOptions {
    ClusterOptions { file: Some(site.folder.path().join("cluster.yaml")), ..ClusterOptions::default() }
}

async fn prune(site: &Site, keep: &[Keep]) -> Result<Ended, SessionError> {
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(site));
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let verb = Pipeline::RegistryPrune.name();
    let observed = session.observe(verb, source, &access, &hosts, Unreachable::Refused("")).await?;
    observed.plan_prune(keep).await?.check().await?.start(RUN).await?.finish().await
}

async fn list(site: &Site) -> RegistryView {
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(site));
    let source = session.cluster(&cluster).unwrap();
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts).unwrap();
    session.registry_bundles(&source, &access, &hosts).await.unwrap()
}

fn asked(site: &Site) -> Vec<String> {
    std::mem::take(&mut *site.answers.asked.lock().unwrap())
}

#[tokio::test]
async fn an_earlier_bundle_goes_with_what_it_has_alone_and_a_second_run_changes_nothing() {
    let two = Two::bundles().await;
    let site = &two.site;
    let before = list(site).await;
    let names: Vec<(&str, bool)> = before.bundles.iter().map(|one| (one.name.as_str(), one.present)).collect();
    let (first, present) = (two.name(&two.first), two.name(&site.bundle));
    assert!(names.contains(&(first.as_str(), false)) && names.contains(&(present.as_str(), true)), "{names:?}");
    let old = before.bundles.iter().find(|one| one.name == first).unwrap();
    assert!(old.own > 0 && old.own < old.size, "{old:?}");
    assert_eq!(asked(site), Vec::<String>::new(), "a list is no question");

    let blobs = two.blobs();
    let ended = prune(site, &[]).await.unwrap();
    let run = ended.run.as_ref().unwrap();
    assert_eq!(run.outcome, Outcome::Succeeded, "{:#?}", run.status);
    assert_eq!(asked(site), ["registry-prune of red"]);
    assert!(two.blobs() < blobs, "{} of {blobs} are left", two.blobs());
    let after = list(site).await;
    assert_eq!(after.bundles.iter().map(|one| one.name.clone()).collect::<Vec<_>>(), [present]);
    let events = site.events();
    assert!(
        events.contains(&format!("bundle {first} is removed")) && events.contains("of blobs are deleted"),
        "{events}"
    );

    let was = site.hosts.fleet.snapshot();
    let again = prune(site, &[]).await.unwrap();
    assert!(again.run.is_none() && again.is_success(), "{:#?}", again.run);
    assert_eq!((site.hosts.fleet.snapshot(), asked(site)), (was, Vec::new()));
    site.create().await.unwrap();
    let reset = site.reset().await.unwrap();
    assert!(reset.is_success(), "{:#?}", reset.run);
}

#[tokio::test]
async fn a_bundle_is_kept_by_its_file_and_by_its_name_and_one_that_is_not_there_is_named() {
    let two = Two::bundles().await;
    let was = two.site.hosts.fleet.snapshot();
    let first = two.name(&two.first);
    let digest = first.rsplit('-').next().unwrap();
    for keep in [
        Keep::Manifest(bundle_manifest(&two.first).unwrap()),
        Keep::Name(first.clone()),
        Keep::Name(digest[..7].to_owned()),
    ] {
        let ended = prune(&two.site, &[keep]).await.unwrap();
        assert!(ended.run.is_none(), "there is nothing to remove: {:#?}", ended.run);
    }
    for (keep, problem) in [("v9.9.9", "is not in the registry"), ("v1.34.4", "may be several bundles")] {
        let error = prune(&two.site, &[Keep::Name(keep.to_owned())]).await.err().unwrap();
        let text = error.to_string();
        assert!(text.contains(problem) && text.contains(&first), "{text}");
        assert_eq!(error.exit_code(), ExitCode::Preflight);
    }
    assert_eq!((two.site.hosts.fleet.snapshot(), asked(&two.site)), (was, Vec::new()));
}

#[tokio::test]
async fn an_image_in_use_is_refused_by_name_before_the_question_and_one_of_a_bundle_that_stays_is_not() {
    let two = Two::bundles().await;
    let was = two.site.hosts.fleet.snapshot();
    two.site.hosts.fleet.use_image(OLD);
    let error = prune(&two.site, &[]).await.err().unwrap();
    assert!(error.to_string().contains(OLD), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Preflight);
    assert_eq!((two.site.hosts.fleet.snapshot(), asked(&two.site)), (was, Vec::new()));
    let ended = prune(&two.site, &[Keep::Manifest(bundle_manifest(&two.first).unwrap())]).await.unwrap();
    assert!(ended.run.is_none() && ended.is_success());
}

#[tokio::test]
async fn a_declined_removal_changes_nothing() {
    let two = Two::bundles().await;
    let was = two.site.hosts.fleet.snapshot();
    let site = Site { answers: Answers::of(Answer::No), ..two.site };
    let error = prune(&site, &[]).await.err().unwrap();
    assert_eq!(error.exit_code(), ExitCode::Declined);
    assert_eq!(site.hosts.fleet.snapshot(), was);
}

/// The second create is rolled back by its own home, which knows nothing of a removal from another one.
#[tokio::test]
async fn a_run_from_before_a_removal_is_not_rolled_back_by_a_home_that_does_not_know_of_it() {
    let two = Two::bundles().await;
    let own = two.site.home.cluster("red").run_ids().unwrap().pop().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let here = two.site.home.clone();
    let site = Site { home: kubexm_session::Home::new(elsewhere.path().to_owned(), None, None), ..two.site };
    let ended = prune(&site, &[]).await.unwrap();
    assert!(ended.is_success(), "{:#?}", ended.run);
    let was = site.hosts.fleet.snapshot();

    let site = Site { home: here, ..site };
    let (session, hosts) = (site.session(), HostOptions::default());
    let bundle = BundleOptions { bundle: vec![site.bundle.clone()], ..BundleOptions::default() };
    let opened = session.open(&bundle).unwrap();
    let loaded = session.run_to_roll_back(opened, Some(own.as_str())).unwrap();
    let error = loaded.roll_back(&hosts, &RUN, false).await.err().unwrap();
    let text = error.to_string();
    assert!(text.contains(own.as_str()) && text.contains("registry prune") && text.contains("red1"), "{text}");
    assert_eq!(site.hosts.fleet.snapshot(), was, "nothing was rolled back");
}

/// `none` leaves nothing to remove, and nobody may be asked about it either.
#[tokio::test]
async fn a_cluster_without_a_registry_is_refused_and_says_what_to_do() {
    let yaml = format!("{}  registry: {{type: none}}\n", cluster_yaml("red", &HOSTS));
    let site = Site::of("red", &HOSTS, &yaml, write_bundle);
    site.create().await.unwrap();
    asked(&site);
    let was = site.hosts.fleet.snapshot();
    let text = prune(&site, &[]).await.err().unwrap().to_string();
    assert!(text.contains("cannot be pruned") && text.contains("the cluster has none"), "{text}");
    assert_eq!((site.hosts.fleet.snapshot(), asked(&site)), (was, Vec::new()));
}

#[tokio::test]
async fn what_a_distribution_registry_got_of_an_earlier_bundle_goes_and_a_second_run_asks_nothing() {
    let two = Two::bundles_of("  registry: {type: registry}\n").await;
    let site = &two.site;
    site.hosts.fleet.use_image(OLD);
    let was = site.hosts.fleet.snapshot();
    let text = prune(site, &[]).await.err().unwrap().to_string();
    assert!(text.contains(OLD), "{text}");
    assert_eq!((site.hosts.fleet.snapshot(), asked(site)), (was, Vec::new()));

    site.hosts.fleet.use_no_image();
    let ended = prune(site, &[]).await.unwrap();
    let run = ended.run.as_ref().unwrap();
    assert_eq!(run.outcome, Outcome::Succeeded, "{:#?}", run.status);
    assert_eq!(asked(site), ["registry-prune of red"]);
    let gone = list(site).await.bundles;
    assert_eq!(gone.iter().map(|one| one.name.clone()).collect::<Vec<_>>(), [two.name(&site.bundle)]);

    site.hosts.fleet.use_image(OLD);
    let was = site.hosts.fleet.snapshot();
    let again = prune(site, &[]).await.unwrap();
    assert!(again.run.is_none() && again.is_success(), "{:#?}", again.run);
    assert_eq!((site.hosts.fleet.snapshot(), asked(site)), (was, Vec::new()));
}
