//! The builder as a library: without a terminal, without an environment, and more than one at a time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test: what fails, fails it")]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::packages::server::Server;
use kubexm_archive::{Bundle, Options, verify};
use kubexm_builder::session::{
    Building, Clock, Environment, Fetching, Network, Selection, Session, SessionError, lockfile,
};
use kubexm_spec::event::EventKind;
use kubexm_spec::{Digest, ExitCode, Lock};
use kubexm_transport::Credentials;

/// A day on which everything happens.
struct Day;

impl Clock for Day {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }
}

/// Somebody with files, a cache and a session of their own.
struct Operator {
    folder: tempfile::TempDir,
    events: Arc<Mutex<Vec<EventKind>>>,
    session: Session,
}

impl Operator {
    /// Wants one file of `server`, by the name of a host that only the zone leads to it, and one of this machine.
    fn new(name: &str, server: &Server, content: &[u8]) -> Self {
        // The one TLS backend; an error means that it is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: String| std::fs::write(folder.path().join(file), text).unwrap();
        let sha256 = Digest::of(content).hex();
        write(
            "cluster.yaml",
            format!(
                "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec:\n  bundle:\n    \
                 platforms: [linux/amd64]\n    extraFiles:\n    - {{url: \"https://files.test/{name}.bin\", sha256: \"{sha256}\"}}\n    \
                 - {{path: \"~/notes.txt\"}}\n"
            ),
        );
        write("notes.txt", format!("notes of {name}\n"));
        let to = server.url();
        write(
            "zone.yaml",
            format!("name: {name}\nrules:\n- {{match: files.test, to: [\"{to}\"], plainHttp: true, only: true}}\n"),
        );
        server.put([(format!("{name}.bin"), content.to_vec())]);
        let environment = Environment {
            user_home: Some(folder.path().to_owned()),
            home: Some(folder.path().join("kubexm")),
            zones: vec![("KMZONE", folder.path().join("zone.yaml").display().to_string())],
            ..Environment::default()
        };
        let events: Arc<Mutex<Vec<EventKind>>> = Arc::default();
        let reported = Arc::clone(&events);
        let session = Session::new(
            environment,
            Network::default(),
            Arc::new(Credentials::anonymous()),
            Arc::new(Day),
            Arc::new(move |event| reported.lock().unwrap().push(event)),
        );
        Self { folder, events, session }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Locks, writes the lock, reads it again, and builds from it.
    fn lock_and_build(&self, target: &str, runtime: &tokio::runtime::Handle) -> (Lock, PathBuf) {
        let selection = Selection { file: Some(self.path("cluster.yaml")), ..Selection::default() };
        let needed = self.session.needed(&selection).unwrap();
        let fetching = Fetching { jobs: 2, ..Fetching::default() };
        let origins = self.session.origins(&fetching).unwrap();
        let lock = runtime.block_on(self.session.lock(&needed, &origins, fetching.jobs)).unwrap();
        std::fs::write(self.path("cluster.lock.json"), lockfile::text(&lock).unwrap()).unwrap();
        let locked = lockfile::at_hand(None, selection.file.as_deref()).unwrap().unwrap();
        assert_eq!(locked, lock);
        let target = self.path(target);
        let building = Building {
            locked: Some(&locked),
            target: &target,
            jobs: fetching.jobs,
            options: Options::default(),
            base: None,
            sources: true,
            tool: "test 1",
        };
        self.session.build(&needed, &origins, &building, runtime).unwrap();
        (lock, target)
    }

    /// What was reported, as text.
    fn messages(&self) -> String {
        serde_json::to_string(&*self.events.lock().unwrap()).unwrap()
    }
}

fn whole(bundle: &std::path::Path) -> Bundle {
    let bundle = Bundle::open(bundle).unwrap();
    verify(&bundle, 2, &|_, _| {}).unwrap();
    bundle
}

#[test]
fn two_sessions_lock_and_build_at_the_same_time_and_know_nothing_of_each_other() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (first, second) = runtime.block_on(async { (Server::start().await, Server::start().await) });
    let one = Operator::new("one", &first, &[1; 70_000]);
    let two = Operator::new("two", &second, &[2; 90_000]);
    let handle = runtime.handle();
    let (built_one, built_two) = std::thread::scope(|scope| {
        let other = scope.spawn(|| two.lock_and_build("two.tar.zst", handle));
        (one.lock_and_build("one.tar.zst", handle), other.join().unwrap())
    });
    for (name, (lock, path), content) in [("one", &built_one, vec![1; 70_000]), ("two", &built_two, vec![2; 90_000])] {
        let bundle = whole(path);
        assert_eq!((lock.name.as_str(), lock.zone.as_deref()), (name, Some(name)));
        assert!(bundle.has_blob(&Digest::of(&content)), "{name}");
        assert!(bundle.has_blob(&Digest::of(format!("notes of {name}\n"))), "{name}");
    }
    let asked = |server: &Server| server.answers().into_iter().map(|(_, path)| path).collect::<Vec<_>>();
    assert!(asked(&first).iter().all(|path| path == "one.bin"));
    assert!(asked(&second).iter().all(|path| path == "two.bin"));
    assert!(one.messages().contains("\"lock\"") && two.messages().contains("\"fetch\""), "{}", one.messages());
    assert!(!one.messages().contains("two.bin") && !two.messages().contains("one.bin"));
}

#[test]
fn a_session_builds_the_same_bytes_again_from_its_own_cache() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start());
    let operator = Operator::new("again", &server, &[3; 50_000]);
    let (_, first) = operator.lock_and_build("first.tar.zst", runtime.handle());
    server.remove(|_| true);
    let (_, second) = operator.lock_and_build("second.tar.zst", runtime.handle());
    assert_eq!(std::fs::read(first).unwrap(), std::fs::read(second).unwrap());
}

#[test]
fn an_error_has_the_exit_code_of_a_program_and_ends_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start());
    let operator = Operator::new("site", &server, b"x");
    let error = |selection: &Selection| operator.session.needed(selection).map(drop).unwrap_err();
    let file = Some(operator.path("cluster.yaml"));
    let absent = error(&Selection { file: Some(operator.path("absent.yaml")), ..Selection::default() });
    assert!(matches!(absent, SessionError::Input(_)), "{absent}");
    assert_eq!(absent.exit_code(), ExitCode::Config);
    let zone = error(&Selection { file: file.clone(), zone: Some("mars".to_owned()), ..Selection::default() });
    assert!(zone.to_string().contains("mars"), "{zone}");
    // The origin has no such file any more.
    server.remove(|_| true);
    let needed = operator.session.needed(&Selection { file, ..Selection::default() }).unwrap();
    let origins = operator.session.origins(&Fetching::default()).unwrap();
    let missing = runtime.block_on(operator.session.lock(&needed, &origins, 2)).unwrap_err();
    assert!(matches!(missing.exit_code(), ExitCode::OriginMissing | ExitCode::NoSource), "{missing}");
}
