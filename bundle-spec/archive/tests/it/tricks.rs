//! Archives made to fool a reader: headers that lead elsewhere, members twice, sizes that lie, frames that swell.
//!
//! Every digest and checksum in them holds, so that nothing but the rule that is broken can be what is noticed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::hash::Hasher as _;
use std::path::Path;
use std::process::Command;

use crate::support::forge::Forged;
use crate::support::{self, blob, noise, small};
use kubexm_archive::{ArchiveError, Bundle, verify, verify_quick, verify_stream};
use kubexm_spec::{Digest, ExitCode};

/// Opens and verifies; every way of reading must refuse it. The code of opening, or of verifying.
fn refused(bytes: &[u8]) -> (ExitCode, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    fs::write(&path, bytes).unwrap();
    let streamed = verify_stream(Path::new("-"), bytes, 1, &|_, _| {});
    assert!(!streamed.is_ok_and(|streamed| streamed.bytes.is_ok()), "it passes as a stream");
    let refused = match Bundle::open(&path) {
        Err(error) => (error.exit_code(), error.to_string()),
        Ok(bundle) => {
            let report = verify(&bundle, 2, &|_, _| {}).unwrap_err();
            (report.exit_code(), report.to_string())
        }
    };
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was written");
    refused
}

/// An honest archive whose member `at` has another header.
fn with_header(at: usize, change: impl Fn(&mut [u8])) -> Vec<u8> {
    let forged = Forged::honest(&small());
    let name = forged.members[at].0.clone();
    let mut file = forged.bytes();
    let needle = [name.as_bytes(), b"\0"].concat();
    // The last place: manifest.json and layout.json name it too, without the zero.
    let header = file.windows(needle.len()).rposition(|window| window == needle).unwrap();
    change(&mut file[header..header + 512]);
    seal(file)
}

/// The checksum of a tar header, as every tar demands it.
fn sum(header: &mut [u8]) {
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn word(file: &[u8], at: usize) -> usize {
    u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize
}

/// Makes checksums of raw frames, digests of the trailer and its own fit what is there now.
fn seal(mut file: Vec<u8>) -> Vec<u8> {
    let count = word(&file, file.len() - 9);
    let table = file.len() - 9 - 8 * count;
    let (mut offset, mut digests) = (0, Vec::new());
    for entry in 0..count - 1 {
        let len = word(&file, table + 8 * entry);
        let frame = &mut file[offset..offset + len];
        if frame[4] == 0xa4 {
            // Every content here fits into one block.
            let mut hasher = twox_hash::XxHash64::with_seed(0);
            hasher.write(&frame[12..len - 4]);
            frame[len - 4..].copy_from_slice(&(hasher.finish() as u32).to_le_bytes());
        }
        if entry != 1 {
            digests.extend_from_slice(Digest::of(&file[offset..offset + len]).as_bytes());
        }
        offset += len;
    }
    let payload = offset + 8;
    let end = payload + word(&file, offset + 4) - 32;
    file[end - digests.len()..end].copy_from_slice(&digests);
    let own = Digest::of(&file[payload..end]);
    file[end..end + 32].copy_from_slice(own.as_bytes());
    file
}

#[test]
fn the_honest_archive_passes_when_it_is_sealed_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    fs::write(&path, with_header(2, sum)).unwrap();
    assert_eq!(support::is_whole(&path), Ok(()));
}

#[test]
fn names_in_tar_headers_that_lead_elsewhere_are_damage_of_that_member() {
    let long = "a/".repeat(50);
    let names: [&[u8]; 11] = [
        b"../index.json",
        b"/index.json",
        b"./index.json",
        b"../../../../etc/cron.d/x",
        b"index.json/",
        b"INDEX.JSON",
        b"Index.json",
        b"index.json\0/../../x",
        b"\0",
        b"lock.yaml",
        long.as_bytes(),
    ];
    for name in names {
        let file = with_header(2, |header| {
            header[..100].fill(0);
            header[..name.len()].copy_from_slice(name);
            sum(header);
        });
        let (code, text) = refused(&file);
        assert_eq!(code, ExitCode::BundleDamaged, "{name:?}");
        assert!(text.contains("index.json"), "{text}");
    }
    // The prefix of ustar, which other readers put before the name.
    let prefixed = with_header(2, |header| {
        header[345..350].copy_from_slice(b"../..");
        sum(header);
    });
    assert_eq!(refused(&prefixed).0, ExitCode::BundleDamaged);
}

#[test]
fn links_devices_folders_and_headers_of_other_kinds_of_tar_are_damage() {
    // Hard and symbolic link, character and block device, folder, FIFO, contiguous, PAX (both), GNU's long name and link,
    // sparse, volume label, and the oldest regular file.
    for kind in *b"1234567xgLKSV\0" {
        let file = with_header(2, |header| {
            header[156] = kind;
            header[157..168].copy_from_slice(b"/etc/shadow");
            sum(header);
        });
        assert_eq!(refused(&file).0, ExitCode::BundleDamaged, "{:?}", char::from(kind));
        let bare = with_header(2, |header| {
            header[156] = kind;
            sum(header);
        });
        assert_eq!(refused(&bare).0, ExitCode::BundleDamaged, "{:?}", char::from(kind));
    }
}

#[test]
fn sizes_owners_and_modes_in_headers_that_are_not_the_manifests_are_damage() {
    let lies: [(usize, &[u8]); 9] = [
        (124, b"00000000001\0"),
        (124, b"77777777777\0"),
        (124, b"-0000000001\0"),
        (124, b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"),
        (124, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        (100, b"0004755\0"),
        (108, b"0001000\0"),
        (136, b"14000000000\0"),
        (257, b"ustar  \0"),
    ];
    for (at, bytes) in lies {
        let file = with_header(2, |header| {
            header[at..at + bytes.len()].copy_from_slice(bytes);
            sum(header);
        });
        assert_eq!(refused(&file).0, ExitCode::BundleDamaged, "{at}: {bytes:?}");
    }
}

#[test]
fn a_duplicate_member_is_refused_in_manifest_and_archive() {
    let twice = |at: usize| {
        let mut contents = small();
        contents.insert(at, contents[at].clone());
        Forged::honest(&contents).bytes()
    };
    for at in [0, 2, 3] {
        assert_eq!(refused(&twice(at)).0, ExitCode::BundleDamaged, "{at}");
    }
    // In the archive only: behind the members that manifest and layout list.
    let mut forged = Forged::honest(&small());
    let again = forged.members[0].clone();
    forged.members.push(again);
    assert_eq!(refused(&forged.bytes()).0, ExitCode::BundleDamaged);
    // As another member, under the same name.
    let mut forged = Forged::honest(&small());
    forged.members[1] = forged.members[0].clone();
    assert_eq!(refused(&forged.bytes()).0, ExitCode::BundleDamaged);
}

#[test]
fn names_that_differ_in_case_only_are_no_members() {
    let hex = small()[3].0.clone();
    let upper = format!("blobs/sha256/{}", hex.trim_start_matches("blobs/sha256/").to_uppercase());
    for (from, to) in [(hex.as_str(), upper.as_str()), ("index.json", "Index.JSON"), ("blobs/", "Blobs/")] {
        let forged = Forged::honest(&small()).edit_manifest(from, to).edit_layout(from, to);
        assert_eq!(refused(&forged.bytes()).0, ExitCode::BundleDamaged, "{to}");
    }
}

#[test]
fn control_characters_and_long_names_in_the_manifest_are_refused_and_not_printed_raw() {
    let long = "n".repeat(5000);
    for name in ["index.json\\u0000", "\\u001b[2Jindex.json", "index.json\\n", long.as_str()] {
        let forged = Forged::honest(&small()).edit_manifest("index.json", name).edit_layout("index.json", name);
        let (code, text) = refused(&forged.bytes());
        assert_eq!(code, ExitCode::BundleDamaged, "{name}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}

#[test]
fn a_newer_format_is_reported_with_what_reads_it() {
    let (code, text) = refused(&Forged { format: 7, ..Forged::honest(&small()) }.bytes());
    assert_eq!(code, ExitCode::BundleNewer);
    assert!(text.contains("format 7") && text.contains("kubexm"), "{text}");
    let newer = Forged::honest(&small()).edit_manifest("\"format\":2", "\"format\":7");
    let (code, text) = refused(&newer.bytes());
    assert_eq!(code, ExitCode::BundleNewer);
    assert!(text.contains("format 7"), "{text}");
}

/// A frame that says `size` and whose blocks, each of one repeated byte, swell to 128 KiB times `blocks`.
fn swelling(size: u32, blocks: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa4];
    frame.extend(size.to_le_bytes());
    for block in 1..=blocks {
        let header = (128_u32 << 10) << 3 | 1 << 1 | u32::from(block == blocks);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame.extend([0; 4]);
    frame
}

/// An archive whose last member is this frame instead of the one that belongs there; table and trailer say so.
fn with_last_frame(frame: &[u8], size: u32) -> Vec<u8> {
    let content = (blob(noise(9000, 7)), "x");
    let contents = [("index.json".to_owned(), b"{}".to_vec()), content.0.clone()];
    let forged = Forged::honest(&contents);
    let last = format!(r#"{{"encoding":"raw","name":"{}"}}"#, content.0.0);
    let bytes = forged.edit_layout(&last, &last.replace("raw", "zstd")).bytes();
    let count = word(&bytes, bytes.len() - 9);
    let table = bytes.len() - 9 - 8 * count;
    let lens: Vec<usize> = (0..count).map(|entry| word(&bytes, table + 8 * entry)).collect();
    let before: usize = lens[..count - 3].iter().sum();
    let (old, end) = (lens[count - 3], lens[count - 2]);
    let mut file = bytes[..before].to_vec();
    file.extend(frame);
    file.extend(&bytes[before + old..before + old + end]);
    let trailer = file.len();
    file.extend(&bytes[before + old + end..]);
    // Length of the whole, and the frame's entry in the table.
    let total = file.len() as u64;
    file[trailer + 24..trailer + 32].copy_from_slice(&total.to_le_bytes());
    let entry = file.len() - 9 - 8 * 3;
    file[entry..entry + 4].copy_from_slice(&(frame.len() as u32).to_le_bytes());
    file[entry + 4..entry + 8].copy_from_slice(&size.to_le_bytes());
    seal(file)
}

#[test]
fn frames_that_swell_beyond_what_the_manifest_allows_are_refused() {
    let stream = 512 + 9216;
    // What the table says must be what the manifest says; what the frame says must be that too, and what it holds.
    for (said, table) in [(stream, stream), (u32::MAX, stream), (stream, u32::MAX), (8 << 20, 8 << 20), (0, stream)] {
        let file = with_last_frame(&swelling(said, 20_000), table);
        let (code, text) = refused(&file);
        assert!(matches!(code, ExitCode::BundleDamaged), "{said} {table}: {code:?} {text}");
    }
}

const CHILD: &str = "KUBEXM_ARCHIVE_TEST_BOMB";

/// Runs only in the process that the next test starts: reads the bomb in every way.
#[test]
fn child_that_reads_a_bomb() {
    let Some(path) = std::env::var_os(CHILD).map(std::path::PathBuf::from) else { return };
    let _ = verify_stream(Path::new("-"), fs::File::open(&path).unwrap(), 1, &|_, _| {});
    if let Ok(bundle) = Bundle::open(&path) {
        assert!(verify(&bundle, 1, &|_, _| {}).is_err());
        let _ = verify_quick(&bundle, 1, &|_, _| {});
        for member in bundle.members() {
            let _ = bundle.read(&member.name, 1 << 20);
        }
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 96 << 10, "{kib} KiB were held for a file of some kilobytes");
    println!("the bomb was read in {kib} KiB");
}

#[test]
fn a_bomb_of_gigabytes_is_refused_in_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bomb.tar.zst");
    // 20 000 blocks of 4 bytes: 2.4 GiB.
    for (said, table) in [(9728, 9728), (u32::MAX, 9728), (8 << 20, 8 << 20)] {
        fs::write(&path, with_last_frame(&swelling(said, 20_000), table)).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tricks::child_that_reads_a_bomb", "--nocapture"])
            .env(CHILD, &path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("the bomb was read"), "{text}");
    }
}

#[test]
fn a_manifest_that_declares_terabytes_allocates_nothing() {
    let forged = Forged::honest(&small());
    let name = &small()[4].0;
    for size in ["1099511627776", "9223372036854775807", "18446744073709551615"] {
        let lie = Forged::honest(&small()).edit_manifest(
            &format!("\"name\":\"{name}\",\"sha256\":\"{}\",\"size\":1500", Digest::of(&small()[4].1)),
            &format!("\"name\":\"{name}\",\"sha256\":\"{}\",\"size\":{size}", Digest::of(&small()[4].1)),
        );
        assert_ne!(lie.manifest_json, forged.manifest_json);
        assert_eq!(refused(&lie.bytes()).0, ExitCode::BundleDamaged, "{size}");
    }
}

#[test]
fn documents_of_the_head_beyond_their_limit_are_refused_before_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let mut file = Forged::honest(&small()).bytes();
    let header = &mut file[12..524];
    header[124..136].copy_from_slice(b"01000000001\0");
    sum(header);
    fs::write(&path, seal(file)).unwrap();
    let error = Bundle::open(&path).unwrap_err();
    assert!(matches!(&error, ArchiveError::TooLarge { name, .. } if name == "manifest.json"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::BundleDamaged);
}

#[test]
fn a_forged_entry_of_the_trailer_changes_no_content_and_is_found_by_the_quick_check_and_in_one_pass() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let mut file = Forged::honest(&small()).bytes();
    let table = file.len() - 9 - 8 * word(&file, file.len() - 9);
    // The entry before the last, which is that of the archive's end, and the trailer's digest of itself.
    let own = table - 8 - 32;
    file[own - 2 * 32] ^= 1;
    fs::write(&path, &file).unwrap();
    assert!(Bundle::open(&path).is_err(), "the trailer's own digest holds it");

    let payload = (0..own).rfind(|at| file[*at..].starts_with(b"KUBEXM\r\n")).unwrap();
    let sealed = Digest::of(&file[payload..own]);
    file[own..own + 32].copy_from_slice(sealed.as_bytes());
    fs::write(&path, &file).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    assert!(verify(&bundle, 2, &|_, _| {}).is_ok(), "every content is what the manifest says");
    let report = verify_quick(&bundle, 2, &|_, _| {}).unwrap_err();
    assert_eq!(report.damages[0].part, small().last().unwrap().0);
    let streamed = verify_stream(Path::new("-"), &file[..], 1, &|_, _| {});
    assert!(!streamed.is_ok_and(|streamed| streamed.bytes.is_ok()));
}
