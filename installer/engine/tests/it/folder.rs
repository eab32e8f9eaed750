//! The run folder, the lock and the cluster's certificates: what lies on the controller's disk.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot set itself up has failed")]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use crate::common::{BUNDLE, CLUSTER, Site, plan};
use kubexm_engine::events::Silent;
use kubexm_engine::slots::SlotSource as _;
use kubexm_engine::{Belongs, ClusterLock, ClusterPki, EngineError, Run, RunId, run};
use kubexm_plan::{Authority, CertificateUse, Plan, SlotName, SlotProvider};
use kubexm_spec::{Digest, ExitCode};
use rustls_pki_types::pem::PemObject as _;
use time::{Duration, OffsetDateTime};

#[test]
fn another_cluster_or_bundle_is_refused_and_named() {
    let site = Site::new();
    drop(site.create(&plan()));
    let (cluster, bundle, other) = (Digest::of(CLUSTER), Digest::of(BUNDLE), Digest::of("other"));
    for (belongs, named) in [
        (Belongs { cluster: other, bundle: Some(bundle) }, "cluster.yaml"),
        (Belongs { cluster, bundle: Some(other) }, "bundle"),
    ] {
        let error = Run::load(&site.runs(), &RunId::named("one"), belongs).expect_err("another");
        assert_eq!(error.exit_code(), ExitCode::PlanMismatch);
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[test]
fn a_plan_of_another_schema_and_a_damaged_text_are_refused() {
    let site = Site::new();
    drop(site.create(&plan()));
    let folder = site.runs().join("one");
    let text = std::fs::read_dir(folder.join("texts")).expect("texts").next().expect("one").expect("entry").path();
    let whole = std::fs::read(&text).expect("bytes");
    std::fs::write(&text, b"changed").expect("written");
    assert!(matches!(site.load(), Err(EngineError::RunDamaged { .. })));
    std::fs::write(&text, whole).expect("written");
    let plan = std::fs::read_to_string(folder.join("plan.json")).expect("a plan");
    let written = format!("\"schema\": {}", kubexm_plan::SCHEMA);
    std::fs::write(folder.join("plan.json"), plan.replacen(&written, "\"schema\": 99", 1)).expect("written");
    let error = site.load().expect_err("newer");
    assert_eq!(error.exit_code(), ExitCode::PlanMismatch);
    assert!(error.to_string().contains("schema"), "{error}");
}

#[tokio::test]
async fn a_plan_that_was_edited_after_the_run_began_is_refused() {
    let (site, plan) = (Site::new(), plan());
    site.execute(&plan, &mut site.create(&plan), &Silent).await.expect("a run");
    let path = site.runs().join("one/plan.json");
    let text = std::fs::read_to_string(&path).expect("a plan");
    std::fs::write(&path, text.replacen("Switch swap off", "Switch swap on", 1)).expect("written");
    assert_eq!(site.load().expect_err("edited").exit_code(), ExitCode::PlanMismatch);
}

#[test]
fn runs_are_listed_by_age_without_half_created_ones() {
    let site = Site::new();
    assert_eq!(run::list(&site.runs()).expect("none yet"), []);
    let id = RunId::new();
    drop(Run::create(&site.runs(), id.clone(), &plan()).expect("a run"));
    std::fs::create_dir(site.runs().join(".cut.new")).expect("made");
    assert_eq!(run::list(&site.runs()).expect("one"), [id]);
    assert!(matches!(run::read_status(&site.runs(), &RunId::named("none")), Err(EngineError::NoRun { .. })));
}

#[test]
fn the_last_run_is_the_one_that_was_made_last_whatever_the_clock_said() {
    let site = Site::new();
    let ids = ["20300101T000000Z-0001", "20200101T000000Z-0002", "20250101T000000Z-0003"].map(RunId::named);
    for id in &ids {
        drop(Run::create(&site.runs(), id.clone(), &plan()).expect("a run"));
    }
    assert_eq!(run::list(&site.runs()).expect("three"), ids);
    // Runs of programs that kept no number come first, by name.
    std::fs::remove_file(site.runs().join(ids[2].as_str()).join("sequence")).expect("removed");
    std::fs::remove_file(site.runs().join(ids[0].as_str()).join("sequence")).expect("removed");
    assert_eq!(run::list(&site.runs()).expect("three"), [&ids[2], &ids[0], &ids[1]].map(Clone::clone));
    let next = RunId::named("20190101T000000Z-0004");
    drop(Run::create(&site.runs(), next.clone(), &plan()).expect("a run"));
    assert_eq!(run::list(&site.runs()).expect("four").last(), Some(&next));
}

#[test]
fn the_lock_of_a_cluster_names_its_holder_and_is_released_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let lock = ClusterLock::take(folder.path(), "demo", "run one").expect("free");
    let error = ClusterLock::take(folder.path(), "demo", "run two").expect_err("held");
    assert_eq!(error.exit_code(), ExitCode::HostLocked);
    assert!(error.to_string().contains("run one"), "{error}");
    drop(lock);
    ClusterLock::take(folder.path(), "demo", "run three").expect("free again");
}

fn server(names: &[String]) -> CertificateUse {
    CertificateUse { sans: names.to_vec(), ..CertificateUse::default() }
}

#[test]
fn a_clients_certificate_is_of_its_own_authority_and_made_anew_for_another_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = ClusterPki::open(folder.path()).expect("a pki folder");
    let client = |user: &str, group: &str| CertificateUse {
        authority: Authority::Etcd,
        common_name: Some(user.to_owned()),
        organizations: vec![group.to_owned()],
        client: true,
        ..CertificateUse::default()
    };
    let first = pki.certificate("apiserver", &client("kube-apiserver-etcd-client", "masters")).expect("a certificate");
    let authority = pki.certificate_of(Authority::Etcd).expect("a CA");
    assert!(first.0.ends_with(&authority));
    assert_ne!(authority, pki.certificate_of(Authority::Registry).expect("another CA"));
    let again = pki.certificate("apiserver", &client("kube-apiserver-etcd-client", "masters")).expect("the same");
    assert_eq!(again, first);

    let pem = rustls_pki_types::CertificateDer::from_pem_slice(first.0.as_bytes()).expect("PEM");
    let (_, leaf) = x509_parser::parse_x509_certificate(&pem).expect("X.509");
    assert_eq!(leaf.subject().to_string(), "CN=kube-apiserver-etcd-client, O=masters");
    let usage = leaf.extended_key_usage().expect("read").expect("there").value;
    assert!(usage.client_auth && !usage.server_auth);

    let other = pki.certificate("apiserver", &client("other", "masters")).expect("another user");
    assert_ne!(other, first);
    assert_ne!(pki.certificate("apiserver", &client("other", "others")).expect("another group"), other);
}

#[test]
fn certificates_stay_the_same_until_names_change_or_they_run_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = ClusterPki::open(folder.path()).expect("a pki folder");
    let names = ["registry.demo.kubexm.internal".to_owned(), "10.0.0.5".to_owned()];
    let first = pki.certificate("registry", &server(&names)).expect("a certificate");
    let authority = pki.certificate_of(Authority::Registry).expect("a CA");
    assert!(first.0.ends_with(&authority) && first.1.contains("BEGIN PRIVATE KEY"));
    let again = ClusterPki::open(folder.path()).expect("the same folder");
    assert_eq!(again.certificate("registry", &server(&names)).expect("the same"), first);
    assert_eq!(again.certificate_of(Authority::Registry).expect("the same"), authority);

    let late = again.clone().at(OffsetDateTime::now_utc() + Duration::days(3640));
    assert_ne!(late.certificate("registry", &server(&names)).expect("a new one"), first);
    let other = pki.certificate("registry", &server(&names[..1])).expect("other names");
    assert_ne!(other, first);
    for file in std::fs::read_dir(folder.path()).expect("files") {
        let mode = file.expect("a file").metadata().expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_view_renews_what_a_run_would_renew_and_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = ClusterPki::open(folder.path()).expect("a pki folder");
    let names = ["registry.demo.kubexm.internal".to_owned()];
    let first = pki.certificate("registry", &server(&names)).expect("a certificate");
    let files = || -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let all = std::fs::read_dir(folder.path()).expect("files").map(|file| file.expect("a file").path());
        let mut all: Vec<_> = all.map(|path| (path.clone(), std::fs::read(path).expect("read"))).collect();
        all.sort();
        all
    };
    let before = files();
    let view = ClusterPki::view(folder.path(), false);
    assert_eq!(view.certificate("registry", &server(&names)).expect("the same"), first);
    let late = view.at(OffsetDateTime::now_utc() + Duration::days(3640));
    let renewed = late.certificate("registry", &server(&names)).expect("a new one");
    assert_ne!(renewed, first);
    assert_eq!(late.certificate("registry", &server(&names)).expect("made once"), renewed);
    assert_eq!(
        late.certificate_of(Authority::Registry).expect("the CA"),
        pki.certificate_of(Authority::Registry).expect("it")
    );
    let empty = ClusterPki::view(&folder.path().join("none"), true);
    assert_ne!(empty.certificate("registry", &server(&names)).expect("another CA's"), first);
    assert!(!format!("{late:?}").contains("PRIVATE KEY"));
    assert_eq!(files(), before, "nothing was written");
    assert!(!folder.path().join("none").exists());
}

#[test]
fn a_damaged_certificate_is_an_error_that_names_the_file_and_not_the_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = ClusterPki::open(folder.path()).expect("a pki folder");
    let (_, key) = pki.certificate("registry", &server(&["a.b".to_owned()])).expect("a certificate");
    let path = folder.path().join("registry-server-registry.pem");
    std::fs::write(&path, key).expect("written");
    let error = pki.certificate("registry", &server(&["a.b".to_owned()])).expect_err("damaged").to_string();
    assert!(error.contains("registry-server-registry.pem") && !error.contains("BEGIN"), "{error}");
}

/// When the first certificate of a text begins and ends.
fn period(pem: &[u8]) -> [OffsetDateTime; 2] {
    let pem = rustls_pki_types::CertificateDer::from_pem_slice(pem).expect("PEM");
    let (_, one) = x509_parser::parse_x509_certificate(&pem).expect("X.509");
    [one.validity().not_before.to_datetime(), one.validity().not_after.to_datetime()]
}

/// A plan in which an authority and a certificate of it are valid for so many hours.
fn valid(authority: u32, leaf: u32) -> Plan {
    let usage = CertificateUse { valid_h: Some(leaf), ..server(&["a.b".to_owned()]) };
    let slot = |name: &str| SlotName(name.to_owned());
    let provider =
        SlotProvider::Authority { authority: Authority::Registry, valid_h: Some(authority), replaces: BTreeSet::new() };
    let key = SlotProvider::CertificateKey { cert: slot("cert") };
    let slots = [(slot("ca"), provider), (slot("cert"), SlotProvider::Certificate(usage)), (slot("key"), key)];
    Plan { slots: slots.into(), ..plan().plan().clone() }
}

async fn value(pki: &ClusterPki, plan: &Plan, slot: &str) -> Result<Vec<u8>, EngineError> {
    let name = SlotName(slot.to_owned());
    pki.value(&name, &plan.slots[&name], plan).await
}

const DAY_H: u32 = 24;

#[tokio::test]
async fn certificates_and_authorities_are_as_valid_as_the_plan_wants_and_what_is_there_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = ClusterPki::open(folder.path()).expect("a pki folder");
    let wanted = valid(1_000 * DAY_H, 200 * DAY_H);
    // The certificate first: its authority is made for it.
    let leaf = value(&pki, &wanted, "cert").await.expect("a certificate");
    let ca = value(&pki, &wanted, "ca").await.expect("a CA");
    let long = |pem: &[u8]| period(pem)[1] - period(pem)[0];
    assert_eq!((long(&leaf), long(&ca)), (Duration::days(200), Duration::days(1_000)));
    let others = valid(3_000 * DAY_H, 100 * DAY_H);
    assert_eq!(value(&pki, &others, "cert").await.expect("the same"), leaf);
    assert_eq!(value(&pki, &others, "ca").await.expect("the same"), ca);
    let made = tempfile::tempdir().expect("a folder");
    let made = ClusterPki::open(made.path()).expect("a pki folder");
    made.make(Authority::Registry, &wanted).expect("made");
    assert_eq!(long(&value(&made, &others, "ca").await.expect("that one")), Duration::days(1_000));
}

#[tokio::test]
async fn a_short_certificate_is_made_once_and_anew_in_its_last_quarter() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = ClusterPki::open(folder.path()).expect("a pki folder");
    let wanted = valid(3_650 * DAY_H, 20 * DAY_H);
    let first = value(&pki, &wanted, "cert").await.expect("a certificate");
    let key = value(&pki, &wanted, "key").await.expect("its key");
    let later = |days| pki.clone().at(OffsetDateTime::now_utc() + Duration::days(days));
    assert_eq!(value(&later(14), &wanted, "cert").await.expect("the same"), first);
    assert_eq!(value(&later(14), &wanted, "key").await.expect("the same"), key);
    assert_ne!(value(&later(16), &wanted, "cert").await.expect("another"), first);
}

#[tokio::test]
async fn a_certificate_never_outlives_its_authority_and_one_that_has_ended_signs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = ClusterPki::open(folder.path()).expect("a pki folder");
    let wanted = valid(300 * DAY_H, 200 * DAY_H);
    let ca = value(&pki, &wanted, "ca").await.expect("a CA");
    let at = |days| pki.clone().at(OffsetDateTime::now_utc() + Duration::days(days));
    for days in [200, 290, 299] {
        let leaf = value(&at(days), &wanted, "cert").await.expect("a certificate");
        assert_eq!(period(&leaf)[1], period(&ca)[1], "after {days} days");
        let (again, key) = (value(&at(days), &wanted, "cert").await, value(&at(days), &wanted, "key").await);
        assert_eq!(again.expect("the same"), leaf, "after {days} days");
        key.expect("its key");
    }
    let error = value(&at(301), &wanted, "cert").await.expect_err("ended");
    assert_eq!(error.exit_code(), ExitCode::Config);
    assert!(
        error.to_string().contains("registry-ca.pem") && error.to_string().contains("--new-registry-ca"),
        "{error}"
    );
}

#[tokio::test]
async fn a_renewed_authority_keeps_its_name_and_key_and_signs_again_what_it_has_signed() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = ClusterPki::open(folder.path()).expect("a pki folder");
    let mut wanted = valid(300 * DAY_H, 200 * DAY_H);
    let (ca, leaf) =
        (value(&pki, &wanted, "ca").await.expect("a CA"), value(&pki, &wanted, "cert").await.expect("one"));
    let slot = SlotName("ca".to_owned());
    let Some(SlotProvider::Authority { valid_h, replaces, .. }) = wanted.slots.get_mut(&slot) else { panic!("a CA") };
    (*valid_h, *replaces) = (Some(3_000 * DAY_H), [Digest::of(&ca)].into());
    // Nothing is written by who only compares.
    let seen = value(&ClusterPki::view(folder.path(), false), &wanted, "ca").await.expect("another");
    assert_ne!(seen, ca);
    // The certificate first: it is of the renewed one.
    let again = value(&pki, &wanted, "cert").await.expect("another");
    let renewed = value(&pki, &wanted, "ca").await.expect("another");
    assert!(again != leaf && again.ends_with(&renewed) && renewed != ca);
    // It begins when the earlier one did, and has a number of its own.
    assert_eq!(period(&renewed)[0], period(&ca)[0]);
    assert!(period(&renewed)[1] - period(&ca)[0] - Duration::days(3_000) < Duration::minutes(5));
    let serial = |pem: &[u8]| {
        let der = rustls_pki_types::CertificateDer::from_pem_slice(pem).expect("PEM");
        x509_parser::parse_x509_certificate(&der).expect("X.509").1.raw_serial().to_vec()
    };
    assert_ne!(serial(&renewed), serial(&ca));
    let parts = |pem: &[u8]| {
        let der = rustls_pki_types::CertificateDer::from_pem_slice(pem).expect("PEM");
        let (_, one) = x509_parser::parse_x509_certificate(&der).expect("X.509");
        let extensions: Vec<Vec<u8>> = one.extensions().iter().map(|one| one.value.to_vec()).collect();
        (one.subject().as_raw().to_vec(), one.public_key().raw.to_vec(), extensions)
    };
    assert_eq!(parts(&renewed), parts(&ca));
    // A run that goes on, and one that knows nothing of it, renew nothing once more.
    assert_eq!(value(&pki, &wanted, "ca").await.expect("the same"), renewed);
    assert_eq!(value(&pki, &valid(300 * DAY_H, 200 * DAY_H), "ca").await.expect("the same"), renewed);
    assert_eq!(value(&pki, &wanted, "cert").await.expect("the same"), again);
    // What was sealed before it, or after it, has the same keys; that of another cluster has not.
    let sealed_before = tempfile::tempdir().expect("a folder");
    let before = ClusterPki::open(sealed_before.path()).expect("a pki folder");
    let other = tempfile::tempdir().expect("a folder");
    let other = ClusterPki::open(other.path()).expect("a pki folder");
    other.make(Authority::Registry, &wanted).expect("made");
    std::fs::copy(folder.path().join("registry-ca.pem"), sealed_before.path().join("registry-ca.pem")).expect("a copy");
    assert!(pki.has_keys_of(&before.files().expect("files")).expect("compared"));
    assert!(!pki.has_keys_of(&other.files().expect("files")).expect("compared"));
    other.make(Authority::Etcd, &wanted).expect("made");
    assert!(!pki.has_keys_of(&other.files().expect("files")).expect("compared"));
}
