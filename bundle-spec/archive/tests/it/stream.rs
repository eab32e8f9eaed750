//! A bundle that passes once, front to end: the answers are those of a bundle that lies on a disk.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use crate::support::forge::Forged;
use crate::support::{blob, inputs, manifest, noise, small, write_with};
use kubexm_archive::{Bundle, Documents, Options, Streamed, verify_stream, write};
use kubexm_spec::ExitCode;

fn stream(bytes: &[u8]) -> Result<Streamed, String> {
    let streamed = verify_stream(Path::new("-"), bytes, 2, &|_, _| {}).map_err(|e| e.to_string())?;
    streamed.bytes.as_ref().map_err(ToString::to_string)?;
    Ok(streamed)
}

/// How a program ends on it.
fn code_of(bytes: &[u8]) -> ExitCode {
    match verify_stream(Path::new("-"), bytes, 1, &|_, _| {}) {
        Err(error) => error.exit_code(),
        Ok(streamed) => streamed.bytes.map_or_else(|report| report.exit_code(), |_| ExitCode::Ok),
    }
}

fn sample() -> Vec<(String, Vec<u8>)> {
    let mut contents = small();
    contents.extend([blob(noise(20 << 20, 41)), blob(br#"{"schemaVersion":2}"#.to_vec()), blob(vec![b'a'; 9 << 20])]);
    contents.push(blob(b"\n \t\r{\"schemaVersion\":2}".to_vec()));
    contents
}

/// Gives a few bytes at a time, as a slow pipe does.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(self.0.len()).min(77_777);
        let (now, later) = self.0.split_at(len);
        buffer[..len].copy_from_slice(now);
        self.0 = later;
        Ok(len)
    }
}

#[test]
fn a_stream_is_reported_on_like_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    write_with(&path, &sample(), 2).unwrap();
    let bytes = fs::read(&path).unwrap();
    let file = Bundle::open(&path).unwrap();
    let streamed = verify_stream(Path::new("-"), Trickle(&bytes), 2, &|_, _| {}).unwrap();
    assert_eq!(streamed.bytes.as_ref().unwrap().bytes, file.size());
    assert_eq!(streamed.manifest_digest(), file.manifest_digest());
    assert_eq!(streamed.bundle_id(), file.bundle_id());
    for name in ["index.json", "lock.yaml", &sample()[7].0] {
        assert_eq!(streamed.document(name, 1 << 20).unwrap(), file.read(name, 1 << 20).unwrap());
    }
    assert!(streamed.document(&sample()[6].0, 1 << 20).is_err(), "a large blob is not kept");
    let reported = streamed.document(&sample()[6].0, 1 << 30).unwrap_err().to_string();
    assert!(reported.contains("give the bundle as a file"), "{reported}");
    assert_eq!(streamed.document(&sample()[9].0, 1 << 20).unwrap(), sample()[9].1, "blanks may stand before JSON");
}

#[test]
fn volumes_behind_one_another_pass_too() {
    let dir = tempfile::tempdir().unwrap();
    for size in [9_000_000, 10_000_000, 12_345_678] {
        let options = Options { level: 1, threads: 2, split: Some(size) };
        let target = dir.path().join("x.tar.zst");
        let written = write(&target, &manifest(&sample()), inputs(&sample()), &options, &|_, _| {}).unwrap();
        let bytes: Vec<u8> = written.files.iter().flat_map(|file| fs::read(file).unwrap()).collect();
        stream(&bytes).unwrap();
        // A volume left out in the middle.
        let lacking: Vec<u8> = written.files.iter().skip(1).flat_map(|file| fs::read(file).unwrap()).collect();
        assert!(stream(&lacking).is_err());
        let swapped: Vec<u8> = [0, 2, 1].iter().flat_map(|at| fs::read(&written.files[*at]).unwrap()).collect();
        assert!(stream(&swapped).is_err());
    }
}

#[test]
fn every_changed_byte_of_a_stream_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    write_with(&path, &small(), 1).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    stream(&bytes).unwrap();
    for at in 0..bytes.len() {
        bytes[at] ^= 1 << (at % 8);
        let code = code_of(&bytes);
        assert_ne!(code, ExitCode::Ok, "byte {at} of {}", bytes.len());
        assert_ne!(code, ExitCode::BundleTruncated, "byte {at}: nothing was cut");
        bytes[at] ^= 1 << (at % 8);
    }
    for at in 1..bytes.len() {
        assert_eq!(code_of(&bytes[..at]), ExitCode::BundleTruncated, "cut at {at}");
    }
    bytes.push(0);
    assert!(stream(&bytes).is_err(), "a byte too many");
}

#[test]
fn damage_in_the_middle_of_a_stream_is_reported_with_its_member_and_the_rest_is_read() {
    let contents = sample();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    write_with(&path, &contents, 2).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 8;
    let streamed = verify_stream(Path::new("-"), &bytes[..], 2, &|_, _| {}).unwrap();
    let report = streamed.bytes.unwrap_err();
    assert!(report.damages.iter().any(|damage| damage.part == contents[6].0), "{report}");
    assert_eq!(report.exit_code(), ExitCode::BundleDamaged);
}

#[test]
fn streams_that_are_no_bundle_or_forged_are_refused() {
    let code = |bytes: &[u8]| verify_stream(Path::new("-"), bytes, 1, &|_, _| {}).unwrap_err().exit_code();
    assert_eq!(code(b""), ExitCode::NotABundle);
    assert_eq!(code(b"hello"), ExitCode::NotABundle);
    assert_eq!(code(&zstd::encode_all(&[0; 10240][..], 1).unwrap()), ExitCode::NotABundle);
    let forged = Forged::honest(&small());
    stream(&forged.bytes()).unwrap();
    let name = small()[3].0.clone();
    let lie = Forged::honest(&small()).edit_manifest(&name, "blobs/sha256/../../../etc/passwd");
    assert_eq!(code(&lie.bytes()), ExitCode::BundleDamaged);
    assert_eq!(
        code(&Forged::honest(&small()).edit_manifest("\"format\":2", "\"format\":3").bytes()),
        ExitCode::BundleNewer
    );
}

/// The header of volume 1 of some bundle, by the format's description.
fn volume_header() -> Vec<u8> {
    let mut payload = b"KUBEXMV\n\x01\0\0\0\x01\0\0\0".to_vec();
    payload.extend([0; 40]);
    let own = kubexm_spec::Digest::of(&payload);
    [&[0x5c, 0x2a, 0x4d, 0x18, 88, 0, 0, 0][..], &payload, own.as_bytes()].concat()
}

/// The same bytes for ever, counted.
struct Again {
    bytes: Vec<u8>,
    given: u64,
}

impl Read for &mut Again {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let from = (self.given % self.bytes.len() as u64) as usize;
        let len = buffer.len().min(self.bytes.len() - from);
        buffer[..len].copy_from_slice(&self.bytes[from..from + len]);
        self.given += len as u64;
        Ok(len)
    }
}

#[test]
fn headers_of_volumes_without_end_are_refused_at_the_second() {
    let mut again = Again { bytes: volume_header(), given: 0 };
    let ended = verify_stream(Path::new("-"), (&mut again).take(64 << 20), 1, &|_, _| {});
    assert_eq!(ended.unwrap_err().exit_code(), ExitCode::BundleDamaged);
    assert!(again.given <= 4 << 20, "{} bytes were read", again.given);
}
