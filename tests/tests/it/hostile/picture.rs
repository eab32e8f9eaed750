//! Everything that can be lost of a file tree: content, kind, mode, owner, link targets, extended attributes and times.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use kubexm_spec::Digest;

/// Path → all that is so of it. Names that are not UTF-8 are escaped.
pub type Picture = BTreeMap<String, String>;

/// What the fake keeps for itself, the kernel's, and what a reboot forgets.
const LEFT_OUT: [&str; 4] = ["/run", "/proc", "/sys", "/lib/systemd"];

/// A whole machine.
pub fn of(root: &Path) -> Picture {
    let mut picture = Picture::new();
    walk(root, Path::new(""), &mut picture);
    picture
}

fn walk(root: &Path, below: &Path, picture: &mut Picture) {
    for entry in fs::read_dir(root.join(below)).expect("a folder").map(|entry| entry.expect("an entry")) {
        let relative = below.join(entry.file_name());
        let path = format!("/{}", relative.as_os_str().as_bytes().escape_ascii());
        if LEFT_OUT.contains(&path.as_str()) {
            continue;
        }
        let real = entry.path();
        let found = fs::symlink_metadata(&real).expect("metadata");
        let kind = found.file_type();
        let what = if kind.is_symlink() {
            format!("link to {}", fs::read_link(&real).expect("a target").as_os_str().as_bytes().escape_ascii())
        } else if kind.is_dir() {
            walk(root, &relative, picture);
            "folder".to_owned()
        } else if kind.is_fifo() {
            "pipe".to_owned()
        } else {
            format!("file {} of {}", Digest::of(fs::read(&real).expect("content")), modified(&path, &found))
        };
        let access = format!("{:04o} {}:{}", found.mode() & 0o7777, found.uid(), found.gid());
        picture.insert(path, format!("{what} {access} {}", attributes(&real)));
    }
}

/// Files that ops edit in place of their owner have a new time when they are as before.
fn modified(path: &str, found: &fs::Metadata) -> String {
    match path.starts_with("/var/lib/") || path.starts_with("/opt/") || path.starts_with("/srv/") {
        true => format!("{}.{:09}", found.mtime(), found.mtime_nsec()),
        false => String::new(),
    }
}

fn attributes(path: &Path) -> String {
    let mut names = vec![0_u8; 4096];
    let Ok(length) = rustix::fs::llistxattr(path, &mut names[..]) else { return String::new() };
    let names = names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
    let value = |name: &[u8]| {
        let mut value = vec![0_u8; 4096];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap_or_default();
        format!("{}={}", name.escape_ascii(), value[..length].escape_ascii())
    };
    names.map(value).collect::<Vec<_>>().join(" ")
}

/// What differs, one line each.
pub fn differences(now: &Picture, before: &Picture) -> Vec<String> {
    let all: std::collections::BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    let differs = all.into_iter().filter(|path| now.get(*path) != before.get(*path));
    differs.map(|path| format!("{path} is {:?}, and was {:?}", now.get(path), before.get(path))).collect()
}
