//! A build that does not come to its end leaves nothing under the bundle's name, and does not stand in the way of the next.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::{blob, inputs, is_whole, manifest, noise, small, write_with};
use kubexm_archive::{ArchiveError, Encoding, Input, Options, write};
use kubexm_spec::ExitCode;

fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

fn write_changed(dir: &Path, change: impl FnOnce(&mut Input<'static>)) -> ArchiveError {
    let contents = small();
    let mut inputs = inputs(&contents);
    change(&mut inputs[3]);
    let target = dir.join("x.tar.zst");
    write(&target, &manifest(&contents), inputs, &Options { level: 1, threads: 2, ..Options::default() }, &|_, _| {})
        .unwrap_err()
}

#[test]
fn an_input_that_is_not_what_the_manifest_says_is_named_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let name = small()[3].0.clone();
    let content = small()[3].1.clone();
    let mut flipped = content.clone();
    flipped[9] ^= 1;
    for wrong in [flipped, content[1..].to_vec(), [content.clone(), vec![0]].concat()] {
        let error = write_changed(dir.path(), |input| {
            input.open = Box::new(move || Ok(Box::new(io::Cursor::new(wrong.clone()))));
        });
        assert!(matches!(&error, ArchiveError::InputMismatch { name: named, .. } if *named == name), "{error}");
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }
    let error = write_changed(dir.path(), |input| input.open = Box::new(|| Err(io::ErrorKind::NotFound.into())));
    assert!(matches!(&error, ArchiveError::InputUnreadable { name: named, .. } if *named == name), "{error}");
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn a_failed_build_leaves_the_bundle_of_the_last_one_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x.tar.zst");
    write_with(&target, &small(), 1).unwrap();
    let before = fs::read(&target).unwrap();
    write_changed(dir.path(), |input| input.open = Box::new(|| Err(io::ErrorKind::NotFound.into())));
    assert_eq!(fs::read(&target).unwrap(), before);
    assert_eq!(names(dir.path()), ["x.tar.zst"]);
}

/// A reader that tells that it is read, and waits until it may continue.
struct Gate(Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>);

impl Read for Gate {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        if let Some((reached, go_on)) = self.0.take() {
            let _ = reached.send(());
            let _ = go_on.recv();
        }
        Ok(0)
    }
}

#[test]
fn two_writers_of_one_file_exclude_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x.tar.zst");
    let contents = [blob(Vec::new())];
    let (reached, is_reached) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let gate = std::sync::Mutex::new(Some((reached, may_go_on)));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let mut inputs = inputs(&contents);
            inputs[0].open = Box::new(|| Ok(Box::new(Gate(gate.lock().unwrap().take()))));
            write(&target, &manifest(&contents), inputs, &Options::default(), &|_, _| {})
        });
        is_reached.recv().unwrap();
        let second = write_with(&target, &contents, 1).unwrap_err();
        assert!(matches!(second, ArchiveError::Locked { .. }), "{second}");
        go_on.send(()).unwrap();
        first.join().unwrap().unwrap();
    });
    assert_eq!(is_whole(&target), Ok(()));
    assert_eq!(names(dir.path()), ["x.tar.zst"]);
}

/// A file system of 8 MiB of its own, gone with the value.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(dir.path()).status();
        assert!(status.unwrap().success(), "this test mounts a tmpfs and must run as root");
        Self(dir)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_reported_and_leaves_no_file() {
    let disk = SmallDisk::new();
    let target = disk.0.path().join("x.tar.zst");
    let error = write_with(&target, &[blob(noise(30 << 20, 3))], 2).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Disk);
    assert!(
        matches!(&error, ArchiveError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull),
        "{error:?}"
    );
    assert_eq!(names(disk.0.path()), Vec::<String>::new());
    write_with(&target, &small(), 2).unwrap();
    assert_eq!(is_whole(&target), Ok(()));
}

const CHILD: &str = "KUBEXM_ARCHIVE_TEST_CHILD";

/// Runs only in the process that the next test starts and kills.
#[test]
fn child_that_never_finishes() {
    let Some(target) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let (name, content) = blob(vec![1; 64 << 20]);
    let size = content.len() as u64;
    let sha256 = kubexm_spec::Digest::of(&content);
    let endless: kubexm_archive::Open<'_> = Box::new(|| {
        // 40 MiB, then nothing, for as long as the process lives.
        let (_keep, wait) = mpsc::channel::<()>();
        struct Wait(mpsc::Receiver<()>, mpsc::Sender<()>);
        impl Read for Wait {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                let _ = &self.1;
                self.0.recv().map(|()| 0).map_err(io::Error::other)
            }
        }
        Ok(Box::new(io::repeat(1).take(40 << 20).chain(Wait(wait, _keep))))
    });
    let inputs = vec![Input { name: name.clone(), size, sha256, encoding: Encoding::Raw, open: endless }];
    let _ = write(&target, &manifest(&[(name, content)]), inputs, &Options::default(), &|_, _| {});
}

#[test]
fn a_killed_build_leaves_no_bundle_and_the_next_one_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x.tar.zst");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "interrupted::child_that_never_finishes"])
        .env(CHILD, &target)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let partial = dir.path().join(".x.tar.zst.partial");
    let deadline = Instant::now() + Duration::from_secs(60);
    while fs::metadata(&partial).map_or(0, |m| m.len()) < 16 << 20 {
        assert!(Instant::now() < deadline, "the child did not begin to write");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(dir.path()), [".x.tar.zst.partial"]);
    write_with(&target, &small(), 1).unwrap();
    assert_eq!(is_whole(&target), Ok(()));
    assert_eq!(names(dir.path()), ["x.tar.zst"]);
}
