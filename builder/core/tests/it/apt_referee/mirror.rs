//! The lab's snapshot of indexes, on loopback.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A file server over the snapshot; ends with the test.
pub struct Mirror {
    server: Child,
    port: u16,
    /// The moment of the snapshot, in seconds of Unix time.
    pub now: i64,
    folder: tempfile::TempDir,
}

/// The folder of the trees.
pub fn snapshot() -> PathBuf {
    let home = || std::env::var_os("HOME").map(PathBuf::from).unwrap();
    let cache = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).unwrap_or_else(|| home().join(".cache"));
    let lab = std::env::var_os("KUBEXM_LAB").map(PathBuf::from).unwrap_or_else(|| cache().join("kubexm-lab"));
    lab.join("packages")
}

impl Mirror {
    pub fn start() -> Self {
        let tree = snapshot();
        let now = std::fs::read_to_string(tree.join("now"))
            .unwrap_or_else(|error| panic!("no indexes in {} ({error}): run scripts/lab packages", tree.display()));
        let folder = tempfile::tempdir().unwrap();
        let port_file = folder.path().join("port");
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/lab/origin.py");
        let mut server = Command::new("python3")
            .arg(program)
            .arg(&tree)
            .arg(&port_file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It logs each request: whom nobody reads dies of it.
        let log = BufReader::new(server.stdout.take().unwrap());
        std::thread::spawn(move || log.lines().for_each(drop));
        let begun = Instant::now();
        let port = loop {
            if let Some(port) = std::fs::read_to_string(&port_file).ok().and_then(|text| text.trim().parse().ok()) {
                break port;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "the file server did not start");
            std::thread::sleep(Duration::from_millis(20));
        };
        Self { server, port, now: now.trim().parse().unwrap(), folder }
    }

    /// Where our side keeps what it has read: suites that two comparisons have in common are unpacked once.
    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// Address of one of the trees.
    pub fn url(&self, tree: &str) -> String {
        format!("http://127.0.0.1:{}/{tree}", self.port)
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
