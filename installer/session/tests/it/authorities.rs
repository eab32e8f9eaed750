//! The CA of the registry belongs to the cluster: operators of several homes use the same one, without rotating it in turn.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kubexm_engine::sim::Snapshot;
use kubexm_engine::{ClusterPki, OperatorIdentity, SealedAuthorities};
use kubexm_plan::{Authority, Recipient, SEALED_AUTHORITIES};
use kubexm_session::{Answer, BundleOptions, Ended, SessionError};
use kubexm_spec::{ExitCode, ExitError as _};

use crate::bundle::{cluster_yaml, write_bundle};
use crate::fleet::SimConnector;
use crate::sessions::{NoSecrets, RUN, Site};

const HOSTS: [&str; 2] = ["red1", "red2"];
const CA: &str = "path:/etc/kubexm/registry-ca.crt";

/// cluster.yaml with these operators; two control planes.
fn yaml(operators: &[(&str, String)]) -> String {
    let of = |(name, recipient): &(&str, String)| format!("{{name: {name}, recipient: {recipient}}}");
    let list: Vec<String> = operators.iter().map(of).collect();
    let operators = format!("spec:\n  operators: [{}]\n", list.join(", "));
    cluster_yaml("red", &HOSTS).replace("spec:\n", &operators).replace("master: [red1]", "master: [red1, red2]")
}

fn alone(operators: &[(&str, String)]) -> Site {
    Site::of("red", &HOSTS, &yaml(operators), write_bundle)
}

/// Another home, with the hosts of a site.
fn other(site: &Site, operators: &[(&str, String)]) -> Site {
    let other = alone(operators);
    Site { hosts: SimConnector { fleet: site.hosts.fleet.clone(), ..other.hosts }, ..other }
}

/// The same home, with other operators in cluster.yaml.
fn again(site: Site, operators: &[(&str, String)]) -> Site {
    let bundle = write_bundle(site.folder.path(), &yaml(operators));
    Site { bundle, ..site }
}

fn pki(site: &Site) -> String {
    fs::read_to_string(site.home.cluster("red").pki().join("registry-ca.pem")).unwrap_or_default()
}

fn value<'a>(state: &'a Snapshot, host: &str, key: &str) -> &'a str {
    &state[host][key]
}

async fn sealed(site: &Site, host: &str) -> String {
    site.hosts.fleet.links()[host].facts().await.unwrap().sealed_authorities.unwrap()
}

async fn done(site: &Site) -> usize {
    let ended = site.create().await.unwrap();
    assert!(ended.is_success(), "{:#?}", ended.run);
    ended.run.unwrap().status.counts.done
}

pub async fn with_new_ca(site: &Site) -> Result<Ended, SessionError> {
    let session = site.session();
    let file = Some(site.folder.path().join("cluster.yaml"));
    let bundle = BundleOptions { bundle: vec![site.bundle.clone()], file, ..BundleOptions::default() };
    let hosts = kubexm_session::HostOptions::default();
    let opened = session.open(&bundle)?.with_new_registry_ca(true);
    let access = kubexm_session::Access::obtain(&session, opened.cluster(), &bundle.trust, &hosts)?;
    let verified = opened.verify(&session)?;
    let unreachable = kubexm_session::Unreachable::Refused("");
    let observed = session.observe("create", verified, &access, &hosts, unreachable).await?;
    observed.plan(kubexm_session::Recipe::Create).await?.check().await?.start(RUN).await?.finish().await
}

/// A refusal that changes nothing on any host.
async fn refused(site: &Site, code: ExitCode) -> String {
    let before = site.hosts.fleet.snapshot();
    let error = site.create().await.err().unwrap();
    assert_eq!((error.exit_code(), site.hosts.fleet.snapshot()), (code, before), "{error}");
    assert!(site.home.cluster("red").run_ids().unwrap().len() < 2, "no run was begun");
    error.to_string()
}

/// Every file below a folder that holds a text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let of = |path: std::path::PathBuf| match path.is_dir() {
        true => holding(&path, text),
        false => {
            let holds = String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(text);
            holds.then(|| path.display().to_string()).into_iter().collect()
        }
    };
    entries.flat_map(of).collect()
}

#[tokio::test]
async fn a_second_operators_create_changes_nothing_and_takes_the_ca_over() {
    let bob = alone(&[]);
    let operators = [("bob", bob.home.recipient(&NoSecrets(None)).unwrap())];
    let alice = alone(&operators);
    assert!(done(&alice).await > 0);
    let made = alice.hosts.fleet.snapshot();
    for host in HOSTS {
        assert!(value(&made, host, &format!("path:{SEALED_AUTHORITIES}")).starts_with("file 0600 "));
    }
    assert_eq!(sealed(&alice, "red1").await, sealed(&alice, "red2").await);

    let bob = again(Site { hosts: SimConnector { fleet: alice.hosts.fleet.clone(), ..bob.hosts }, ..bob }, &operators);
    // Only the operator's own kubeconfig is new, in the home of the second one.
    assert_eq!(done(&bob).await, 1);
    assert_eq!((bob.hosts.fleet.snapshot(), pki(&bob)), (made.clone(), pki(&alice)));
    for site in [&alice, &bob] {
        assert_eq!(done(site).await, 0);
        let home = site.home.cluster("red");
        assert!(!sealed(site, "red1").await.contains("PRIVATE KEY"));
        let runs = holding(&home.runs(), "PRIVATE KEY");
        assert!(runs.is_empty() && !site.events().contains("PRIVATE KEY"), "{runs:?}");
        assert!(
            holding(&site.folder.path().join("home"), "AGE-SECRET-KEY").iter().all(|path| path.ends_with("/identity"))
        );
    }
    assert_eq!(alice.hosts.fleet.snapshot(), made);
}

#[tokio::test]
async fn a_home_that_is_no_recipient_is_refused_until_it_is_added_on_the_first_ones_machine() {
    let alice = alone(&[]);
    done(&alice).await;
    let made = alice.hosts.fleet.snapshot();
    let bob = other(&alice, &[]);
    let text = refused(&bob, ExitCode::Preflight).await;
    let own = bob.home.recipient(&NoSecrets(None)).unwrap();
    for said in [alice.home.recipient(&NoSecrets(None)).unwrap(), own.clone(), "--new-registry-ca".to_owned()] {
        assert!(text.contains(&said), "{text}");
    }
    assert!(!bob.home.cluster("red").pki().exists(), "no CA is made");

    let operators = [("bob", own)];
    let alice = again(alice, &operators);
    assert!(done(&alice).await > 0, "another list of recipients is sealed anew");
    let bob = again(bob, &operators);
    done(&bob).await;
    assert_eq!(pki(&bob), pki(&alice));
    let after = bob.hosts.fleet.snapshot();
    assert_eq!(value(&after, "red2", CA), value(&made, "red2", CA), "nothing was rotated");
}

#[tokio::test]
async fn when_everything_that_opens_it_is_lost_a_new_ca_is_made_once_it_is_asked_for() {
    let alice = alone(&[]);
    done(&alice).await;
    let made = alice.hosts.fleet.snapshot();
    let bob = other(&alice, &[]);
    assert!(with_new_ca(&bob).await.unwrap().is_success());
    let after = bob.hosts.fleet.snapshot();
    assert_ne!(value(&after, "red2", CA), value(&made, "red2", CA));
    let asked = bob.answers.asked.lock().unwrap().join("\n");
    assert!(asked.contains("red1/authorities.seal") && asked.contains("store.trust"), "{asked}");
    assert_eq!(done(&bob).await, 0);
    // Now the first home is the one that cannot open it.
    assert!(refused(&alice, ExitCode::Preflight).await.contains(&bob.home.recipient(&NoSecrets(None)).unwrap()));

    // Declining leaves the home as it is.
    let (before, hosts) = (pki(&bob), bob.hosts.fleet.snapshot());
    let answers = crate::sessions::Answers::of(Answer::No);
    let bob = Site { answers, bundle: bob.bundle.clone(), ..bob };
    assert_eq!(with_new_ca(&bob).await.err().unwrap().exit_code(), ExitCode::Declined);
    assert_eq!((pki(&bob), bob.hosts.fleet.snapshot()), (before, hosts));
    assert!(!bob.home.cluster("red").folder.join("pki.new").exists(), "no other key is left behind");
}

#[tokio::test]
async fn a_damaged_a_foreign_and_a_different_file_are_named_with_their_host() {
    let alice = alone(&[]);
    done(&alice).await;
    let good = sealed(&alice, "red2").await;
    let stranger = alone(&[]);
    done(&stranger).await;
    let foreign = sealed(&stranger, "red2").await;
    let id = |text: &str| text.split("\"clusterId\": \"").nth(1).unwrap()[..36].to_owned();
    let cases = [
        (good[..good.len() / 2].to_owned(), ExitCode::HostUntrusted, "cut off"),
        (good.replace("/v1", "/v9"), ExitCode::HostUntrusted, "use the kubexm-install that wrote it"),
        (foreign.clone(), ExitCode::HostUntrusted, "belongs to the cluster"),
        (foreign.replace(&id(&foreign), &id(&good)), ExitCode::Preflight, "different CAs"),
    ];
    for (text, code, said) in cases {
        alice.hosts.fleet.set_sealed_authorities("red2", &text);
        let error = refused(&alice, code).await;
        assert!(error.contains("red2") && error.contains(said), "{error}");
    }
    // A recipient that somebody on the host adds is not sealed for.
    let added = good.replace(
        "\"recipients\": [",
        &format!("\"recipients\": [{{\"key\": \"{}\"}},", stranger.home.recipient(&NoSecrets(None)).unwrap()),
    );
    HOSTS.iter().for_each(|host| alice.hosts.fleet.set_sealed_authorities(host, &added));
    let error = refused(&alice, ExitCode::HostUntrusted).await;
    assert!(error.contains("somebody changed it"), "{error}");
    // The file that is missing on one host is written anew from the other's.
    HOSTS.iter().for_each(|host| alice.hosts.fleet.set_sealed_authorities(host, &good));
    assert_eq!(done(&alice).await, 0);
}

#[tokio::test]
async fn a_home_of_an_earlier_program_seals_its_ca_and_another_home_does_not_replace_it() {
    let alice = alone(&[]);
    done(&alice).await;
    // As an earlier program leaves them: nothing is sealed.
    for host in HOSTS {
        alice.hosts.fleet.set_state(host, &format!("path:{SEALED_AUTHORITIES}"), "nothing");
    }
    let made = alice.hosts.fleet.snapshot();
    let bob = other(&alice, &[]);
    let error = refused(&bob, ExitCode::Preflight).await;
    assert!(
        error.contains("from another home") && error.contains(&bob.home.recipient(&NoSecrets(None)).unwrap()),
        "{error}"
    );
    fs::remove_file(alice.home.cluster("red").pki().join("authorities.json")).unwrap();
    assert_eq!(done(&alice).await, HOSTS.len(), "only the file is written");
    assert_eq!(value(&alice.hosts.fleet.snapshot(), "red2", CA), value(&made, "red2", CA));
    assert_eq!(done(&alice).await, 0);
}

/// The findings of preflight, and what a plan of `create` compares, from a home.
async fn looked(site: &Site) -> (String, Option<kubexm_session::Drift>) {
    let (session, hosts) = (site.session(), kubexm_session::HostOptions::default());
    let bundle = BundleOptions { bundle: vec![site.bundle.clone()], ..BundleOptions::default() };
    let open = || session.open(&bundle).unwrap();
    let refused = kubexm_session::Unreachable::Refused("");
    let access = kubexm_session::Access::obtain(&session, open().cluster(), &bundle.trust, &hosts).unwrap();
    let observed = session.observe("preflight", open(), &access, &hosts, refused).await.unwrap();
    let survey = observed.with_authorities().leave().await.unwrap();
    let findings = survey.findings().failures().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    if !findings.is_empty() {
        return (findings, None);
    }
    let observed = session.observe("plan", open(), &access, &hosts, refused).await.unwrap();
    let planned = observed.plan(kubexm_session::Recipe::Create).await.unwrap().check().await.unwrap();
    let drift = planned.drift().await.unwrap();
    planned.leave().await;
    (findings, drift)
}

#[tokio::test]
async fn preflight_reports_what_create_refuses_and_a_plan_compares_certificates_and_writes_none() {
    let bob = alone(&[]);
    let operators = [("bob", bob.home.recipient(&NoSecrets(None)).unwrap())];
    let alice = alone(&operators);
    done(&alice).await;
    let stranger = other(&alice, &[]);
    let (findings, _) = looked(&stranger).await;
    assert!(
        findings.contains("authorities") && findings.contains(&alice.home.recipient(&NoSecrets(None)).unwrap()),
        "{findings}"
    );

    let bob = again(Site { hosts: SimConnector { fleet: alice.hosts.fleet.clone(), ..bob.hosts }, ..bob }, &operators);
    for site in [&alice, &bob] {
        let home = site.home.cluster("red");
        // The lock by which a run is alone is made by whoever looks, too.
        let files = || {
            let mut all = holding(&home.folder, "");
            all.retain(|path| !path.ends_with("controller.lock"));
            all
        };
        let before = files();
        let (findings, drift) = looked(site).await;
        let drift = drift.unwrap();
        assert_eq!((findings.as_str(), files()), ("", before), "nothing is written");
        let differs: Vec<String> = drift.steps.iter().map(|step| step.step.to_string()).collect();
        // The second home has no kubeconfig yet.
        assert!(differs.iter().all(|step| step.starts_with("@controller/")), "{differs:?}");
        // The values of kubeadm's configuration of a control plane that joins are made on a host, and only for a run.
        assert_eq!(drift.skipped, 1, "everything else is compared");
    }
    // Whatever depends on a certificate is seen to differ.
    alice.hosts.fleet.set_state("red2", CA, "file 0644 of somebody else");
    for site in [&alice, &bob] {
        let drift = looked(site).await.1.unwrap();
        assert!(drift.steps.iter().any(|step| step.step.to_string().starts_with("red2/")), "{:?}", drift.steps);
    }
}

#[tokio::test]
async fn a_home_whose_identity_has_a_passphrase_needs_it_to_open_the_ca() {
    let alice = alone(&[]);
    done(&alice).await;
    let words = NoSecrets(Some("correct horse".to_owned()));
    let key = alice.home.recipient(&NoSecrets(None)).unwrap();
    assert_eq!(alice.home.encrypt_identity(&words).unwrap(), key);
    let error = refused_once(&alice).await;
    assert!(error.contains("identity") && error.contains("there is none"), "{error}");
    let alice = Site { secrets: words, ..alice };
    assert_eq!(done(&alice).await, 0);
    assert!(alice.home.encrypt_identity(&alice.secrets).unwrap_err().to_string().contains("already"));
}

async fn refused_once(site: &Site) -> String {
    let before = site.hosts.fleet.snapshot();
    let error = site.create().await.err().unwrap();
    assert_eq!(site.hosts.fleet.snapshot(), before);
    kubexm_spec::error_chain(&error)
}

/// Who is root on a control plane, with an age key of his own.
struct Eve {
    folder: tempfile::TempDir,
    identity: OperatorIdentity,
}

impl Eve {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let identity =
            OperatorIdentity::read_or_make(&folder.path().join("identity"), &|_| Err(String::new())).unwrap();
        Self { folder, identity }
    }

    /// A CA of his own, with its key.
    fn ca(&self) -> String {
        ClusterPki::open(self.folder.path()).unwrap().certificate_of(Authority::Registry).unwrap();
        fs::read_to_string(self.folder.path().join("registry-ca.pem")).unwrap()
    }

    /// A document in the place of `good`: for its recipients and him, with these files.
    fn seals(&self, good: &str, files: BTreeMap<String, String>, maker: Option<&OperatorIdentity>) -> String {
        let about = SealedAuthorities::parse(good).unwrap().about;
        let mut to = about.recipients;
        to.push(Recipient { key: self.identity.recipient(), name: None });
        to.sort();
        SealedAuthorities::of_anybody((&about.cluster, about.cluster_id), &to, files, maker).unwrap().to_json().unwrap()
    }
}

/// What a home has, by file.
fn files(site: &Site) -> BTreeMap<String, String> {
    let folder = fs::read_dir(site.home.cluster("red").pki()).unwrap().map(|entry| entry.unwrap().path());
    let pem = folder.filter(|path| path.extension().is_some_and(|extension| extension == "pem"));
    pem.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap()))
        .collect()
}

/// The public certificates of these files, each with another key.
fn with_foreign_keys(files: BTreeMap<String, String>, ca: &str) -> BTreeMap<String, String> {
    let key = &ca[ca.find("-----BEGIN PRIVATE").unwrap()..];
    let forged = |text: String| text[..text.find("-----BEGIN PRIVATE").unwrap()].to_owned() + key;
    files.into_iter().map(|(name, text)| (name, forged(text))).collect()
}

#[tokio::test]
async fn a_document_with_foreign_keys_is_refused_by_host_and_whom_it_names_gets_nothing() {
    let eve = Eve::new();
    let alice = alone(&[]);
    done(&alice).await;
    let good = sealed(&alice, "red1").await;
    let forged = eve.seals(&good, with_foreign_keys(files(&alice), &eve.ca()), Some(&eve.identity));
    // On the first control plane, on another one, and on both.
    for hosts in [&HOSTS[..1], &HOSTS[1..], &HOSTS[..]] {
        HOSTS.iter().for_each(|host| alice.hosts.fleet.set_sealed_authorities(host, &good));
        hosts.iter().for_each(|host| alice.hosts.fleet.set_sealed_authorities(host, &forged));
        let error = refused(&alice, ExitCode::HostUntrusted).await;
        assert!(error.contains(hosts[0]) && error.contains("not the one of its certificate"), "{error}");
    }
    // Removed on the host, as the message says.
    alice.hosts.fleet.set_state("red1", &format!("path:{SEALED_AUTHORITIES}"), "nothing");
    alice.hosts.fleet.set_sealed_authorities("red2", &good);
    done(&alice).await;
    assert!(!sealed(&alice, "red1").await.contains(&eve.identity.recipient()));
}

#[tokio::test]
async fn somebody_who_had_the_keys_adds_no_recipient_and_stays_without_a_new_ca() {
    let eve = Eve::new();
    let alice = alone(&[]);
    done(&alice).await;
    let good = sealed(&alice, "red1").await;
    // Once an operator: he has opened it.
    let again = eve.seals(&good, files(&alice), Some(&eve.identity));
    HOSTS.iter().for_each(|host| alice.hosts.fleet.set_sealed_authorities(host, &again));
    assert!(done(&alice).await > 0);
    for host in HOSTS {
        assert!(!sealed(&alice, host).await.contains(&eve.identity.recipient()));
    }
    assert!(alice.events().contains("whom this home does not know"), "{}", alice.events());
    assert_eq!(done(&alice).await, 0);
}

#[tokio::test]
async fn a_new_ca_counts_only_if_somebody_made_it_who_is_known() {
    let eve = Eve::new();
    let alice = alone(&[]);
    done(&alice).await;
    let good = sealed(&alice, "red1").await;
    let own = BTreeMap::from([("registry-ca.pem".to_owned(), eve.ca())]);
    for maker in [None, Some(&eve.identity)] {
        let forged = eve.seals(&good, own.clone(), maker);
        HOSTS.iter().for_each(|host| alice.hosts.fleet.set_sealed_authorities(host, &forged));
        let error = refused(&alice, ExitCode::HostUntrusted).await;
        assert!(error.contains("than red") && error.contains("spec.operators"), "{error}");
    }
    // A home without a copy compares with what the members trust.
    HOSTS.iter().for_each(|host| alice.hosts.fleet.set_sealed_authorities(host, &good));
    let bob = alone(&[]);
    let operators = [("bob", bob.home.recipient(&NoSecrets(None)).unwrap())];
    let alice = again(alice, &operators);
    done(&alice).await;
    let good = sealed(&alice, "red1").await;
    let forged = eve.seals(&good, own, Some(&eve.identity));
    let bob = again(Site { hosts: SimConnector { fleet: alice.hosts.fleet.clone(), ..bob.hosts }, ..bob }, &operators);
    HOSTS.iter().for_each(|host| bob.hosts.fleet.set_sealed_authorities(host, &forged));
    let error = refused(&bob, ExitCode::HostUntrusted).await;
    assert!(error.contains("than red") && error.contains(&eve.identity.recipient()), "{error}");
    HOSTS.iter().for_each(|host| bob.hosts.fleet.set_sealed_authorities(host, &good));
    done(&bob).await;
    assert_eq!(pki(&bob), pki(&alice));

    // One for whom the first home has sealed makes a new one: that one is taken over.
    assert!(with_new_ca(&bob).await.unwrap().is_success());
    let alices = [("bob", operators[0].1.clone()), ("alice", alice.home.recipient(&NoSecrets(None)).unwrap())];
    let bob = again(bob, &alices);
    done(&bob).await;
    assert_ne!(pki(&bob), pki(&alice));
    let alice = again(alice, &alices);
    let key = alice.home.cluster("red").pki().join("packages-key.asc");
    fs::write(&key, "of this home's packages").unwrap();
    done(&alice).await;
    assert_eq!(pki(&bob), pki(&alice));
    assert_eq!(fs::read_to_string(&key).unwrap(), "of this home's packages", "no CA, and hosts trust it");
}

#[tokio::test]
async fn an_older_document_that_somebody_puts_back_brings_no_older_ca_back() {
    let alice = alone(&[]);
    done(&alice).await;
    let older = sealed(&alice, "red1").await;
    let newer = alice_makes_a_new_ca(&alice, &older).await;
    HOSTS.iter().for_each(|host| alice.hosts.fleet.set_sealed_authorities(host, &older));
    let before = pki(&alice);
    let error = alice.create().await.err().unwrap();
    assert_eq!(error.exit_code(), ExitCode::HostUntrusted, "{error}");
    assert!(error.to_string().contains("an older file there"), "{error}");
    assert_eq!(pki(&alice), before);
    HOSTS.iter().for_each(|host| alice.hosts.fleet.set_sealed_authorities(host, &newer));
    assert_eq!(done(&alice).await, 0);
    // All of them are gone: who has no name and was there before still gets it.
    HOSTS.iter().for_each(|host| alice.hosts.fleet.set_state(host, &format!("path:{SEALED_AUTHORITIES}"), "nothing"));
    assert_eq!(done(&alice).await, HOSTS.len());
    assert_eq!(sealed(&alice, "red2").await, newer);
}

/// The document of the new one.
async fn alice_makes_a_new_ca(alice: &Site, older: &str) -> String {
    assert!(with_new_ca(alice).await.unwrap().is_success());
    let newer = sealed(alice, "red1").await;
    assert_ne!(newer, older);
    newer
}

#[tokio::test]
async fn a_document_of_an_earlier_program_is_used_as_long_as_it_brings_no_other_ca() {
    let bob = alone(&[]);
    let operators = [("bob", bob.home.recipient(&NoSecrets(None)).unwrap())];
    let alice = alone(&operators);
    done(&alice).await;
    let good = sealed(&alice, "red1").await;
    assert!(good.contains("\"sender\""), "{good}");
    // Without codes, as it was written before.
    let about = SealedAuthorities::parse(&good).unwrap().about;
    let earlier =
        SealedAuthorities::of_anybody((&about.cluster, about.cluster_id), &about.recipients, files(&alice), None);
    let earlier = earlier.unwrap().to_json().unwrap();
    assert!(!earlier.contains("\"sender\""), "{earlier}");
    fs::write(alice.home.cluster("red").pki().join("authorities.json"), &earlier).unwrap();
    HOSTS.iter().for_each(|host| alice.hosts.fleet.set_sealed_authorities(host, &earlier));
    assert_eq!(done(&alice).await, 0, "nothing is sealed anew");
    let bob = again(Site { hosts: SimConnector { fleet: alice.hosts.fleet.clone(), ..bob.hosts }, ..bob }, &operators);
    // Only the operator's own kubeconfig.
    assert_eq!(done(&bob).await, 1);
    assert_eq!((pki(&bob), sealed(&bob, "red2").await), (pki(&alice), earlier));

    // It made a new CA from the other home: not taken over by the home that has the old one, unless its operator asks for that.
    assert!(with_new_ca(&bob).await.unwrap().is_success());
    let to = [("bob", operators[0].1.clone()), ("alice", alice.home.recipient(&NoSecrets(None)).unwrap())];
    let to = to.map(|(name, key)| Recipient { key, name: Some(name.to_owned()) });
    let about = SealedAuthorities::parse(&sealed(&bob, "red1").await).unwrap().about;
    let earlier = SealedAuthorities::of_anybody((&about.cluster, about.cluster_id), &to, files(&bob), None);
    let earlier = earlier.unwrap().to_json().unwrap();
    HOSTS.iter().for_each(|host| alice.hosts.fleet.set_sealed_authorities(host, &earlier));
    let error = alice.create().await.err().unwrap();
    assert_eq!(error.exit_code(), ExitCode::HostUntrusted, "{error}");
    let error = error.to_string();
    assert!(error.contains("than this home") && error.contains("pki of this home aside"), "{error}");
    let home = alice.home.cluster("red");
    fs::rename(home.pki(), home.folder.join("pki.aside")).unwrap();
    done(&alice).await;
    assert_eq!(pki(&alice), pki(&bob));
}
