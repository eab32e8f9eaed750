//! What may stand at the path of an output, and what is left behind when it may not, or when writing fails.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use kubexm_files::{Access, Kind, OutputError, Writer, check, write};
use kubexm_spec::ExitCode;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use tempfile::TempDir;

const NOTE: Kind =
    Kind { name: "a note", recognise: Some(|file| kubexm_files::head(file, 4) == b"note"), access: Access::Umask };
const KEY: Kind = Kind { name: "a key", recognise: None, access: Access::Private };

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Everything in a folder: names, kinds, inodes, content of files.
fn listing(folder: &Path) -> Vec<String> {
    let describe = |path: PathBuf| {
        let there = fs::symlink_metadata(&path).unwrap();
        let content = if there.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        format!("{path:?} {:?} {} {} {content:?}", there.file_type(), there.ino(), there.rdev())
    };
    let mut all: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| describe(entry.unwrap().path())).collect();
    all.sort();
    all
}

/// Refused by the early check and by the writer, with and without force, and nothing has changed.
fn refused(path: &Path, says: &[&str]) {
    let before = listing(path.parent().unwrap());
    for force in [false, true] {
        for error in [check(path, &NOTE, force).unwrap_err(), write(path, &NOTE, force, b"note 2").unwrap_err()] {
            assert_eq!(error.exit_code(), ExitCode::Usage, "{error}");
            assert!(says.iter().all(|part| error.to_string().contains(part)), "{error}");
        }
    }
    assert_eq!(listing(path.parent().unwrap()), before);
}

#[test]
fn what_is_no_regular_file_is_refused_with_force_too() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    mknodat(CWD, at("pipe"), FileType::Fifo, Mode::from(0o600), 0).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    fs::write(at("file"), "note 1").unwrap();
    symlink("file", at("link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    for (name, says) in [
        ("folder", "is a folder"),
        ("pipe", "is a named pipe"),
        ("socket", "is a socket"),
        ("link", "is a symbolic link to file"),
        ("dangling", "is a symbolic link to nowhere"),
    ] {
        refused(&at(name), &[name, says, "-o"]);
    }
    assert!(!at("nowhere").exists());
}

#[test]
fn a_device_is_refused_and_stays_one() {
    let dir = folder();
    let null = dir.path().join("null");
    match mknodat(CWD, &null, FileType::CharacterDevice, Mode::from(0o666), makedev(1, 3)) {
        Ok(()) => refused(&null, &["null is a device"]),
        // Without the right to make one: the machine's own, which such a user cannot replace.
        Err(_) => {
            let error = write(Path::new("/dev/null"), &NOTE, true, b"note").unwrap_err();
            assert!(error.to_string().contains("/dev/null is a device"), "{error}");
        }
    }
    assert!(fs::symlink_metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn standard_output_by_a_devices_name_is_refused_with_the_dash_named() {
    let error = check(Path::new("/dev/stdout"), &NOTE, true).unwrap_err();
    assert!(error.to_string().ends_with("or - for standard output"), "{error}");
}

#[test]
fn a_foreign_file_is_replaced_with_force_only_and_one_of_the_kind_or_empty_without() {
    let dir = folder();
    let path = dir.path().join("out");
    fs::write(&path, "mine").unwrap();
    let before = listing(dir.path());
    let error = write(&path, &NOTE, false, b"note").unwrap_err();
    assert!(matches!(error, OutputError::Foreign { .. }) && error.to_string().contains("--force"), "{error}");
    assert!(matches!(check(&path, &KEY, false), Err(OutputError::Exists { .. })));
    assert_eq!(listing(dir.path()), before);
    for (old, force) in [("mine", true), ("note 0", false), ("", false)] {
        fs::write(&path, old).unwrap();
        check(&path, &NOTE, force).unwrap();
        write(&path, &NOTE, force, b"note 1").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "note 1");
        assert_eq!(listing(dir.path()).len(), 1);
    }
}

#[test]
fn a_place_without_a_folder_or_a_name_is_refused() {
    let dir = folder();
    for (name, says) in [("missing/out", "does not exist"), ("..", "is a folder")] {
        let error = check(&dir.path().join(name), &NOTE, true).unwrap_err();
        assert_eq!((error.exit_code(), error.to_string().contains(says)), (ExitCode::Usage, true), "{error}");
    }
}

#[test]
fn what_appears_while_the_file_is_written_is_not_replaced() {
    let dir = folder();
    let path = dir.path().join("out");
    let mut writer = Writer::create(&path, &NOTE, false).unwrap();
    writer.write_all(b"note").unwrap();
    assert!(!path.exists(), "half a file under the final name");
    fs::write(&path, "mine").unwrap();
    assert_eq!(writer.commit().unwrap_err().exit_code(), ExitCode::Usage);
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert_eq!(listing(dir.path()).len(), 1, "the temporary file stayed");

    fs::remove_file(&path).unwrap();
    let writer = Writer::create(&path, &NOTE, true).unwrap();
    symlink("elsewhere", &path).unwrap();
    assert!(matches!(writer.commit(), Err(OutputError::Link { .. })));
    assert_eq!(fs::read_link(&path).unwrap(), Path::new("elsewhere"));
}

#[test]
fn a_rename_that_may_not_replace_does_not() {
    let dir = folder();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, "new").unwrap();
    fs::write(&to, "old").unwrap();
    assert!(matches!(kubexm_files::rename(&from, &to, false), Err(OutputError::Exists { .. })));
    assert_eq!(fs::read_to_string(&to).unwrap(), "old");
    kubexm_files::rename(&from, &to, true).unwrap();
    assert_eq!(fs::read_to_string(&to).unwrap(), "new");
}

#[test]
fn an_abandoned_output_leaves_nothing_and_what_was_there() {
    let dir = folder();
    let path = dir.path().join("out");
    fs::write(&path, "note 1").unwrap();
    let before = listing(dir.path());
    let mut writer = Writer::create(&path, &NOTE, false).unwrap();
    writer.write_all(b"note 2, half").unwrap();
    drop(writer);
    assert_eq!(listing(dir.path()), before);
}

#[test]
fn a_secret_is_readable_by_its_owner_only_and_a_replaced_file_keeps_its_mode() {
    let dir = folder();
    let path = dir.path().join("out");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    write(&path, &NOTE, false, b"note 1").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    write(&path, &NOTE, false, b"note 2").unwrap();
    assert_eq!(mode(), 0o640);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    write(&path, &KEY, true, b"secret").unwrap();
    assert_eq!(mode(), 0o600);
}
