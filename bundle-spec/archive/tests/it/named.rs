//! Every changed byte and every cut, in a plain, a signed, a split and a left-out bundle: found, and reported with the part and the
//! place where it is.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::support::{blob, inputs, manifest, noise, small};
use kubexm_archive::{
    ArchiveError, Bundle, Contents, Delta, Options, Signature, StoredMember, encoding_for, verify, verify_quick,
    write_contents,
};
use kubexm_spec::ExitCode;

fn signatures() -> Vec<Signature> {
    let one = |id: char, alg: &str| Signature {
        key_id: id.to_string().repeat(32),
        alg: alg.into(),
        sig: "QUJD".repeat(24),
        statement: None,
    };
    vec![one('a', "ecdsa-p256-sha256"), one('b', "ed25519")]
}

/// Writes a bundle of a few small members; its files.
fn bundle(target: &Path, signed: bool, split: Option<u64>, delta: bool) -> Vec<PathBuf> {
    let contents = [small(), vec![blob(noise(300, 9))]].concat();
    let manifest = manifest(&contents);
    let left_out: Vec<StoredMember> = contents
        .iter()
        .filter(|(name, content)| delta && name.starts_with("blobs/") && content.len() > 600)
        .map(|(name, content)| StoredMember { name: name.clone(), encoding: encoding_for(content) })
        .collect();
    let here = inputs(&contents).into_iter().filter(|input| !left_out.iter().any(|out| out.name == input.name));
    let signatures = if signed { signatures() } else { Vec::new() };
    let contents = Contents {
        manifest: &manifest,
        inputs: here.collect(),
        delta: Delta { base: None, left_out },
        signatures: &signatures,
        groups: Vec::new(),
        sources: None,
    };
    let options = Options { level: 1, threads: 1, split };
    write_contents(target, contents, &options, &|_, _| {}).unwrap().files
}

/// What is reported about one damage: file, part, first byte and length.
type Reported = (PathBuf, String, u64, u64);

/// Everything that opening and verifying tell.
fn damages_of(files: &[PathBuf]) -> Result<(), Vec<Reported>> {
    match Bundle::open_all(files) {
        Err(ArchiveError::Damaged { path, part, offset, .. }) => Err(vec![(path, part, offset, 0)]),
        Err(error) => Err(vec![(PathBuf::new(), format!("{} {error}", error.exit_code().code()), 0, 0)]),
        Ok(bundle) => match verify(&bundle, 1, &|_, _| {}) {
            Ok(_) => Ok(()),
            Err(report) => Err(report.damages.into_iter().map(|d| (d.file, d.part, d.offset, d.length)).collect()),
        },
    }
}

/// A frame of the file: where, and of which member. The tail is one part of its own.
fn frames(files: &[PathBuf]) -> Vec<(PathBuf, u64, u64)> {
    let mut all = Vec::new();
    for file in files {
        let bytes = fs::read(file).unwrap();
        let mut at = 0;
        while at < bytes.len() {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            let len = if bytes[at + 1..at + 4] == [0x2a, 0x4d, 0x18] {
                8 + word(at + 4)
            } else {
                zstd::zstd_safe::find_frame_compressed_size(&bytes[at..]).unwrap()
            };
            all.push((file.clone(), at as u64, len as u64));
            at += len;
        }
    }
    all
}

/// The bytes of a frame to be tried: every one, but of the room for signatures, which is 16 KiB of one and the same blank,
/// only some where another test tries them all.
fn bytes_of(start: u64, len: u64, all: bool) -> impl Iterator<Item = u64> {
    let step = if all || len < 16 << 10 { 1 } else { 89 };
    (start..start + len).step_by(step)
}

/// Flips each byte of each file in turn, and holds what is reported against the frame that the byte is in.
fn every_flip_is_named(signed: bool, split: Option<u64>, delta: bool) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let files = bundle(&dir.path().join("x.tar.zst"), signed, split, delta);
    assert_eq!(damages_of(&files), Ok(()));
    let frames = frames(&files);
    let tail = frames.len() - 2;
    for (number, (path, start, len)) in frames.iter().enumerate() {
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        for at in bytes_of(*start, *len, signed && split.is_none() && !delta) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ (1 << (at % 8))], at).unwrap();
            let found = damages_of(&files).unwrap_err();
            let hits = found.iter().any(|(file, part, offset, length)| {
                let inside = file == path && (*offset..=offset + length.max(&0)).contains(&at);
                let same_frame = file == path && (*start..start + len).contains(offset);
                // The two frames of the tail say each where the other ends.
                let in_tail = number >= tail && file == path && *offset >= frames[tail].1;
                let whole_file = part.starts_with("31 ") || part.starts_with("32 ") || part.starts_with("35 ");
                inside || same_frame || in_tail || (whole_file && (number >= tail || part.starts_with("32 ")))
            });
            assert!(hits, "byte {at} of {}, frame {number} of {}: {found:?}", path.display(), frames.len());
            file.write_all_at(&byte, at).unwrap();
        }
    }
    assert_eq!(damages_of(&files), Ok(()));
}

#[test]
fn every_changed_byte_of_a_signed_bundle_is_reported_with_its_frame() {
    every_flip_is_named(true, None, false);
}

#[test]
fn every_changed_byte_of_a_split_and_signed_bundle_is_reported_with_its_volume_and_frame() {
    every_flip_is_named(true, Some(18_500), false);
}

#[test]
fn every_changed_byte_of_a_delta_is_reported_with_its_frame() {
    every_flip_is_named(true, None, true);
}

#[test]
fn the_member_of_a_changed_byte_is_named() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let files = bundle(&dir.path().join("x.tar.zst"), true, None, false);
    let names: Vec<String> = Bundle::open(&files[0]).unwrap().members().map(|member| member.name.clone()).collect();
    let frames = frames(&files);
    // Each member has one frame here.
    for ((path, start, len), name) in frames.iter().zip(&names) {
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        // Past the frame's header: what is there is the member's, whoever looks.
        for at in [start + 20, start + len / 2, start + len - 1] {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 4], at).unwrap();
            let found = damages_of(&files).unwrap_err();
            assert!(found.iter().any(|(_, part, ..)| part == name), "byte {at} of {name}: {found:?}");
            file.write_all_at(&byte, at).unwrap();
        }
    }
}

#[test]
fn quick_verification_finds_every_changed_byte_too() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let files = bundle(&dir.path().join("x.tar.zst"), true, None, false);
    let file = fs::File::options().read(true).write(true).open(&files[0]).unwrap();
    for at in frames(&files).into_iter().flat_map(|(_, start, len)| bytes_of(start, len, false)) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ (1 << (at % 8))], at).unwrap();
        let passes = Bundle::open(&files[0]).is_ok_and(|bundle| verify_quick(&bundle, 1, &|_, _| {}).is_ok());
        assert!(!passes, "byte {at}");
        file.write_all_at(&byte, at).unwrap();
    }
}

#[test]
fn every_cut_of_a_signed_bundle_and_of_a_delta_is_truncation_at_that_byte() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    for delta in [false, true] {
        let files = bundle(&dir.path().join("x.tar.zst"), true, None, delta);
        let bytes = fs::read(&files[0]).unwrap();
        for len in bytes_of(0, bytes.len() as u64, !delta).map(|len| len as usize) {
            fs::write(&files[0], &bytes[..len]).unwrap();
            let error = Bundle::open(&files[0]).unwrap_err();
            assert_eq!(error.exit_code(), ExitCode::BundleTruncated, "cut at {len}: {error}");
            assert!(error.to_string().contains(&format!("byte {len}")), "cut at {len}: {error}");
        }
    }
}

#[test]
fn every_cut_of_every_volume_is_reported_with_that_volume() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let files = bundle(&dir.path().join("x.tar.zst"), true, Some(18_500), false);
    assert!(files.len() >= 2);
    for path in &files {
        let bytes = fs::read(path).unwrap();
        for len in bytes_of(0, bytes.len() as u64, false).chain([bytes.len() as u64 - 1]) {
            fs::write(path, &bytes).unwrap();
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_len(len).unwrap();
            let error = Bundle::open(dir.path()).unwrap_err();
            let text = error.to_string();
            let code = error.exit_code();
            assert!(matches!(code, ExitCode::BundleTruncated | ExitCode::BundleIncomplete), "{len}: {code:?} {text}");
            assert!(text.contains(path.to_str().unwrap()), "cut of {} at {len}: {text}", path.display());
        }
        fs::write(path, bytes).unwrap();
    }
    assert_eq!(damages_of(&files), Ok(()));
}
