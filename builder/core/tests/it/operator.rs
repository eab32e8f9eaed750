//! Somebody who uses the builder as a library.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use kubexm_archive::Options;
use kubexm_builder::session::{Building, Clock, Environment, Fetching, Needed, Network, Selection, Session, lockfile};
use kubexm_spec::event::EventKind;
use kubexm_spec::{Digest, Lock};
use kubexm_transport::Credentials;

use crate::packages::server::Server;

/// A day on which everything happens.
struct Day;

impl Clock for Day {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }
}

/// Somebody with files, a cache and a session of their own.
pub struct Operator {
    folder: tempfile::TempDir,
    events: Arc<Mutex<Vec<EventKind>>>,
    pub session: Session,
}

impl Operator {
    /// Wants one file of `server`, by the name of a host that only the zone leads to it, and one of this machine.
    pub fn new(name: &str, server: &Server, content: &[u8]) -> Self {
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

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Locks, writes the lock, reads it again, and builds from it.
    pub fn lock_and_build(&self, target: &str, runtime: &tokio::runtime::Handle) -> (Lock, PathBuf) {
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
            hand_over: None,
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

    /// What its cluster.yaml needs.
    pub fn needed(&self) -> Needed {
        let selection = Selection { file: Some(self.path("cluster.yaml")), ..Selection::default() };
        self.session.needed(&selection).unwrap()
    }

    /// What was reported, as text.
    pub fn messages(&self) -> String {
        serde_json::to_string(&*self.events.lock().unwrap()).unwrap()
    }
}
