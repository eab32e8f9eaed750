//! What the verbs answer, as data: without a terminal and without a command line.

use kubexm_archive::Bundle;
use kubexm_builder::diff::Change;
use kubexm_builder::probe::State;
use kubexm_builder::session::Fetching;
use kubexm_builder::verbs::{diff, dry_run, explain, inspect, keygen, list, sign, signing_key, verify, zone_check};
use kubexm_signing::Algorithm;
use kubexm_spec::ExitCode;
use serde_json::{Value, json, to_value};
use tokio::runtime::Runtime;

use crate::operator::Operator;
use crate::packages::server::Server;

/// A file that is fetched: zstd makes nothing of it.
const CONTENT: &[u8] = &[7; 60_000];

struct Site {
    runtime: Runtime,
    server: Server,
    operator: Operator,
}

impl Site {
    fn new(name: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(Server::start());
        let operator = Operator::new(name, &server, CONTENT);
        Self { runtime, server, operator }
    }

    fn build(&self, target: &str) -> std::path::PathBuf {
        self.operator.lock_and_build(target, self.runtime.handle()).1
    }

    fn verify(&self, bundle: &std::path::Path, key: Option<&str>) -> verify::Answer {
        let keys: Vec<_> = key.map(|key| self.operator.path(key)).into_iter().collect();
        let request = verify::Request {
            bundles: &[bundle.to_owned()],
            bases: &[],
            quick: false,
            keys: &keys,
            signatures: &[],
            require_signature: false,
            threads: Some(2),
        };
        match verify::verify(&self.operator.session, &request, std::io::empty()) {
            Ok(answer) => answer,
            Err(error) => verify::Answer::unopened(bundle, false, &error),
        }
    }
}

#[test]
fn what_is_in_a_bundle_is_the_same_to_inspect_and_list() {
    let site = Site::new("content");
    let path = site.build("content.tar.zst");
    let bundle = Bundle::open(&path).unwrap();
    let inspected = inspect::Inspected::of(&path, &bundle).unwrap();
    let names = |key: &str, from: &Value| -> Vec<Value> {
        from[key].as_array().unwrap().iter().map(|row| row["key"].clone()).collect()
    };
    let shown = to_value(&inspected).unwrap();
    assert_eq!(shown["schema"], "kubexm.io/inspect/v1");
    assert_eq!((shown["name"].as_str(), shown["zone"].as_str()), (Some("content"), Some("content")));
    let fetched = inspected.artifacts.iter().find(|traced| traced.artifact.name == "content.bin").unwrap();
    let places = fetched.places.as_ref().unwrap();
    assert_eq!(places.asked.as_deref(), Some("https://files.test/content.bin"));
    assert_eq!(places.from, [format!("{}/content.bin", site.server.url())]);

    let all = list::Filter::default();
    let listed = to_value(list::Listing::of(&path, &bundle, &all, false)).unwrap();
    assert_eq!(names("artifacts", &shown), names("artifacts", &listed));
    let images = list::Filter { kinds: vec!["image".to_owned()], platform: None };
    assert_eq!(to_value(list::Listing::of(&path, &bundle, &images, false)).unwrap()["artifacts"], json!([]));
    let members = to_value(list::Listing::of(&path, &bundle, &all, true)).unwrap();
    let blob = members["members"].as_array().unwrap().iter().find(|member| member["size"] == CONTENT.len()).unwrap();
    assert!(blob["offset"].as_u64() > Some(0) && blob["leftOut"].is_null(), "{blob}");
}

#[test]
fn verify_answers_of_whole_damaged_and_foreign_files() {
    let site = Site::new("bytes");
    let path = site.build("bytes.tar.zst");
    let whole = site.verify(&path, None);
    assert_eq!(whole.exit_code, ExitCode::Ok);
    let document = to_value(&whole).unwrap();
    assert_eq!((&document["bytes"]["ok"], &document["complete"]["ok"]), (&json!(true), &json!(true)));
    assert_eq!(document["signature"]["ok"], Value::Null, "nothing was demanded, and nothing is verified");

    let member = Bundle::open(&path).unwrap();
    let row = list::Listing::of(&path, &member, &list::Filter::default(), true);
    let list::Rows::Members(rows) = row.rows else { panic!("members were asked for") };
    let blob = rows.iter().find(|row| row.size == CONTENT.len() as u64).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = usize::try_from(blob.offset.unwrap() + blob.stored.unwrap() / 2).unwrap();
    bytes[middle] ^= 1;
    let damaged = site.operator.path("damaged.tar.zst");
    std::fs::write(&damaged, bytes).unwrap();
    let answer = site.verify(&damaged, None);
    assert_eq!(answer.exit_code, ExitCode::BundleDamaged);
    assert_eq!((answer.bytes.ok, answer.bytes.places.len(), answer.complete.checked), (Some(false), 1, false));
    assert_eq!(answer.bytes.places[0].part, blob.name);

    let foreign = site.verify(&site.operator.path("notes.txt"), None);
    assert_eq!((foreign.exit_code, foreign.bytes.ok), (ExitCode::NotABundle, Some(false)));
    let absent = site.verify(&site.operator.path("absent.tar.zst"), None);
    assert!(absent.problem.unwrap().contains("absent.tar.zst") && absent.bytes.ok.is_none());
    // Keys of what could not be opened are those of what could.
    let keys = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&to_value(&foreign).unwrap()), keys(&document));
}

#[test]
fn a_signature_by_a_trusted_key_is_valid_and_another_keys_is_not() {
    let site = Site::new("signed");
    let path = site.build("signed.tar.zst");
    for name in ["release", "other"] {
        let pair = keygen::keygen(&site.operator.path(name), Algorithm::EcdsaP256, None).unwrap();
        assert!(!pair.encrypted && pair.private_key.is_file(), "{pair:?}");
    }
    let source = signing_key::KeySource {
        key: Some(site.operator.path("release.key")),
        key_env: None,
        signer: None,
        signer_args: Vec::new(),
        public_key: None,
        timeout: signing_key::TIMEOUT,
        password_file: None,
        sequence: Some(7),
        date: None,
    };
    let signed = sign::in_place(&site.operator.session, &path, &source).unwrap();
    assert_eq!((signed.signatures, signed.sequence, signed.date), (1, Some(7), Some(1_800_000_000)));
    let trusted = site.verify(&path, Some("release.pub"));
    assert_eq!((trusted.exit_code, trusted.signature.unwrap().valid_by), (ExitCode::Ok, vec![signed.key_id]));
    let foreign = site.verify(&path, Some("other.pub"));
    assert_eq!((foreign.exit_code, foreign.signature.unwrap().ok), (ExitCode::BundleUntrusted, Some(false)));
}

#[test]
fn a_lock_and_the_bundle_of_it_do_not_differ_and_another_file_does() {
    let site = Site::new("change");
    let old = site.build("old.tar.zst");
    let session = &site.operator.session;
    let lock = site.operator.path("cluster.lock.json");
    assert!(!diff::Difference::between(session, &lock, &old).unwrap().differs);
    std::fs::write(site.operator.path("notes.txt"), "other notes\n").unwrap();
    let new = site.build("new.tar.zst");
    let difference = diff::Difference::between(session, &old, &new).unwrap();
    assert!(difference.differs && !difference.has_same_content());
    let [notes] = difference.artifacts.as_slice() else { panic!("{difference:?}") };
    assert_eq!((notes.change, notes.key.to_string()), (Change::Changed, "file/notes.txt".to_owned()));
    // With what OCI has around a file.
    assert!(difference.bytes.added < 1000 && difference.bytes.kept >= CONTENT.len() as u64, "{:?}", difference.bytes);
    let nothing = diff::Difference::between(session, &lock, &site.operator.path("notes.txt"));
    assert_eq!(nothing.unwrap_err().exit_code(), ExitCode::NotABundle);
}

#[test]
fn an_artifact_that_no_source_has_is_named_before_a_build() {
    let site = Site::new("places");
    let (needed, fetching) = (site.operator.needed(), Fetching { jobs: 2, ..Fetching::default() });
    let request = zone_check::Request { fetching: &fetching, lock: None, file: None };
    let check = || zone_check::check(&site.operator.session, &needed, &request, |_| (), site.runtime.handle()).unwrap();
    let there = check();
    assert_eq!((there.code(), there.available, there.holes), (ExitCode::Ok, true, 0));
    site.server.remove(|_| true);
    let gone = check();
    assert_eq!((gone.code(), gone.nowhere.len(), gone.holes), (ExitCode::NoSource, 1, 1));
    let item = gone.items.iter().find(|item| item.state == State::Missing).unwrap();
    let document = to_value(item).unwrap();
    assert_eq!(document["places"][0]["exitCode"], ExitCode::OriginMissing.code());
}

#[test]
fn a_dry_run_and_explain_need_no_network() {
    let site = Site::new("plan");
    site.server.remove(|_| true);
    let (session, needed) = (&site.operator.session, site.operator.needed());
    let request = dry_run::Request {
        ask: false,
        locked: None,
        fetching: &Fetching::default(),
        split: None,
        hand_over: None,
        target: std::path::Path::new("-"),
        base: None,
    };
    let list = dry_run::dry_run(session, &needed, &request, site.runtime.handle()).unwrap();
    assert_eq!((list.total.artifacts, list.total.unknown), (2, 1), "no origin has stated the size of the file");
    let found = explain::explain(session, "plan.bin", &needed, None, None).unwrap();
    let document = to_value(&found).unwrap();
    assert_eq!((&document["in"], &document["answer"]), (&json!(true), &json!("in")));
    let source = &document["items"][0]["sources"][0];
    assert_eq!(
        (&source["mirror"], &source["address"]),
        (&json!(true), &json!(format!("{}/plan.bin", site.server.url())))
    );
    let unknown = explain::explain(session, "plan.bim", &needed, None, None).unwrap_err();
    assert_eq!(unknown.exit_code(), ExitCode::UnknownVersion);
    assert!(unknown.to_string().contains("plan.bin"), "{unknown}");
}
