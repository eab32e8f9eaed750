//! A disk that fills up: a small tmpfs, so root is needed.

use std::path::Path;
use std::process::Command;

use kubexm_spec::ExitCode;
use kubexm_transport::{Store, TransportError};

use crate::server::{Server, file};
use crate::support::{bytes, client, files, plain, quiet, want};

/// A mounted tmpfs; unmounted whatever happens.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(dir.path()).status().unwrap();
        assert!(status.success(), "this test mounts a small tmpfs and must run as root");
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_with_place_and_size_and_the_fetch_resumes_later() {
    let disk = Tmpfs::mount("size=4m");
    let store = Store::open(disk.path().join("store")).unwrap();
    let body = bytes(7, 6 << 20);
    let good = body.clone();
    let server = Server::start(move |request| file(request, &good, "\"t\"")).await;
    // Two candidates: the second must not be asked, its bytes would find no room either.
    let candidates = [plain(server.url("a")), plain(server.url("b"))];
    let error = client().fetch(&candidates, &want(&body), &store, &quiet).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Disk);
    let TransportError::DiskFull { path, needed: Some(needed) } = &error else { panic!("{error}") };
    assert!(path.starts_with(disk.path()), "{}", path.display());
    assert!((2 << 20..6 << 20).contains(needed), "{needed}");
    assert_eq!(server.requests().len(), 1);
    assert!(files(&store, "blobs/sha256").is_empty());

    let status = Command::new("mount").args(["-o", "remount,size=16m"]).arg(disk.path()).status().unwrap();
    assert!(status.success());
    client().fetch(&candidates, &want(&body), &store, &quiet).await.unwrap();
    assert!(server.requests()[1].offset().is_some(), "what was there is kept");
}

#[test]
fn a_copy_that_finds_no_room_leaves_nothing() {
    let disk = Tmpfs::mount("size=2m");
    let store = Store::open(disk.path().join("store")).unwrap();
    let error = store.insert(bytes(8, 4 << 20).as_slice(), None).unwrap_err();
    assert!(matches!(error, TransportError::DiskFull { .. }), "{error}");
    assert!(files(&store, "partial").is_empty());
}
