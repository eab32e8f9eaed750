//! A disk that fills up, as a real small file system: root is needed to mount one.

use std::path::Path;
use std::process::Command;

use kubexm_spec::{Digest, ExitCode};

use crate::server::Server;
use crate::site::{Site, assert_contains, bundles, noise, wanted};

/// A mounted tmpfs; unmounted whatever happens.
pub struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    pub fn mount(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(dir.path());
        assert!(mount.status().unwrap().success(), "this test mounts a small tmpfs and must run as root");
        Self(dir)
    }

    fn grow(&self, size: &str) {
        let option = format!("remount,size={size}");
        assert!(Command::new("mount").args(["-o", &option]).arg(self.path()).status().unwrap().success());
    }

    pub fn make_read_only(&self) {
        assert!(Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status().unwrap().success());
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

fn two_files(site: &Site) -> (Server, [Vec<u8>; 2]) {
    let bodies = [noise(1, 2 << 20), noise(2, 6 << 20)];
    let server = Server::files(vec![("a", bodies[0].clone()), ("b", bodies[1].clone())]);
    let files = [wanted(&server.url("a"), &bodies[0]), wanted(&server.url("b"), &bodies[1])];
    site.extras(&format!("extraFiles:\n{}", files.join("\n")));
    (server, bodies)
}

#[test]
fn a_full_cache_keeps_complete_blobs_and_the_build_resumes_when_there_is_space() {
    let (site, disk) = (Site::new(), Tmpfs::mount("5m"));
    let (server, bodies) = two_files(&site);
    let cache = disk.path().join("cache");
    let more = ["--jobs", "1", "--cache", cache.to_str().unwrap()];
    let text = site.refused(ExitCode::Disk, &more);
    assert_contains(&text, &["file/b", "the disk is full", cache.to_str().unwrap(), "iB more are needed"]);
    let whole = std::fs::read(cache.join("blobs/sha256").join(Digest::of(&bodies[0]).hex())).unwrap();
    assert_eq!(Digest::of(whole), Digest::of(&bodies[0]));

    disk.grow("16m");
    site.built(&more);
    assert_eq!(server.count("a"), 1, "what was whole is not fetched again");
    let again = server.requests().into_iter().rfind(|request| request.path == "b").unwrap();
    assert!(again.offset().is_some_and(|offset| offset > 1 << 20), "what was there is kept: {again:?}");
}

#[test]
fn without_space_for_the_bundle_nothing_is_left_and_the_cache_is_intact() {
    let (site, disk) = (Site::new(), Tmpfs::mount("4m"));
    let (server, _) = two_files(&site);
    let target = disk.path().join("out.tar.zst");
    let build = || site.run(&["build", "-f", "cluster.yaml", "-o", target.to_str().unwrap()]);
    let text = build().must(ExitCode::Disk).err;
    assert_contains(&text, &[disk.path().to_str().unwrap(), "No space left", "free space there"]);
    assert_eq!(bundles(disk.path()), Vec::<String>::new());
    let asked = server.requests().len();

    disk.grow("16m");
    build().must(ExitCode::Ok);
    assert_eq!(server.requests().len(), asked, "nothing is fetched again");
    assert_eq!(bundles(disk.path()), ["out.tar.zst"]);
    site.run(&["verify", target.to_str().unwrap()]).must(ExitCode::Ok);
}
