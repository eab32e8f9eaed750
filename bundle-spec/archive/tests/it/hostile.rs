//! Files made to hurt: lies about sizes, names that lead elsewhere, formats that are not known.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::path::Path;

use crate::support::forge::Forged;
use crate::support::{blob, small, write_with};
use kubexm_archive::{ArchiveError, Bundle};
use kubexm_spec::ExitCode;

fn open(dir: &Path, bytes: &[u8]) -> Result<Bundle, ArchiveError> {
    let path = dir.join("x.tar.zst");
    fs::write(&path, bytes).unwrap();
    Bundle::open(&path)
}

fn exit_of(forged: &Forged) -> ExitCode {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path(), &forged.bytes()).map_or_else(|e| e.exit_code(), |_| ExitCode::Ok)
}

fn honest() -> Forged {
    Forged::honest(&small())
}

#[test]
fn a_resealed_archive_without_changes_opens() {
    assert_eq!(exit_of(&honest()), ExitCode::Ok);
}

#[test]
fn names_that_lead_out_of_the_layout_are_refused() {
    for name in ["../index.json", "/etc/passwd", "blobs/sha256/../../x", "manifest.json", "lock.yaml"] {
        let mut forged = honest();
        forged.members[2].0 = name.into();
        let quoted = format!("\"{name}\"");
        let forged = forged.edit_manifest("\"index.json\"", &quoted).edit_layout("\"index.json\"", &quoted);
        assert_eq!(exit_of(&forged), ExitCode::BundleDamaged, "{name}");
    }
}

#[test]
fn sizes_that_no_file_has_are_refused_without_reserving_them() {
    for size in ["18446744073709551615", "18446744073709551104", "9223372036854775807", "1099511627776"] {
        let forged = honest().edit_manifest("\"size\":8}", &format!("\"size\":{size}}}"));
        assert_eq!(exit_of(&forged), ExitCode::BundleDamaged, "{size}");
    }
}

#[test]
fn a_document_of_the_head_with_a_huge_declared_size_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = honest().bytes();
    // The tar header's size field of manifest.json: base-256, 2^60. Its frame then no longer matches in any way.
    bytes[12 + 124] = 0x80;
    bytes[12 + 128] = 0x10;
    assert_eq!(open(dir.path(), &bytes).unwrap_err().exit_code(), ExitCode::BundleDamaged);
}

#[test]
fn a_manifest_and_a_layout_that_disagree_are_refused() {
    let lock = r#"{"encoding":"raw","name":"lock.yaml"},"#;
    assert_eq!(exit_of(&honest().edit_layout(lock, "")), ExitCode::BundleDamaged);
    let zstd = honest().edit_layout(r#""encoding":"raw""#, r#""encoding":"zstd""#);
    let dir = tempfile::tempdir().unwrap();
    let bundle = open(dir.path(), &zstd.bytes()).unwrap();
    // Raw blocks are a well-formed zstd frame: the content holds, and readers of either name must agree on it.
    assert_eq!(bundle.read("lock.yaml", 100).unwrap(), b"lock: 1\n");
}

#[test]
fn members_beyond_those_of_the_manifest_are_refused() {
    let mut forged = honest();
    let (name, content) = blob(b"hidden".to_vec());
    forged.members.push((name, 6, content));
    assert_eq!(exit_of(&forged), ExitCode::BundleDamaged);
}

#[test]
fn documents_that_are_not_canonical_are_refused() {
    assert_eq!(exit_of(&honest().edit_manifest("{\"artifacts\"", "{ \"artifacts\"")), ExitCode::BundleDamaged);
    assert_eq!(exit_of(&honest().edit_layout("{\"encoder\"", "{ \"encoder\"")), ExitCode::BundleDamaged);
}

#[test]
fn what_a_newer_program_wrote_is_called_newer_and_not_damaged() {
    assert_eq!(exit_of(&Forged { format: 3, ..honest() }), ExitCode::BundleNewer);
    assert_eq!(exit_of(&honest().edit_manifest("\"format\":2", "\"format\":3")), ExitCode::BundleNewer);
    assert_eq!(exit_of(&honest().edit_layout("\"format\":2", "\"format\":3")), ExitCode::BundleNewer);
    assert_eq!(exit_of(&honest().edit_layout("\"level\":1", "\"level\":1,\"new\":1")), ExitCode::BundleNewer);
    assert_eq!(exit_of(&honest().edit_layout("\"raw\"", "\"brotli\"")), ExitCode::BundleNewer);
}

#[test]
fn a_delta_may_leave_out_blobs_of_the_manifest_and_nothing_else() {
    let left_out = |name: &str| {
        let entry = format!(r#"{{"encoding":"raw","name":"{name}"}}"#);
        let mut forged = honest().edit_layout(&format!("{entry},"), "");
        forged = forged.edit_layout("\"level\":1", &format!("\"leftOut\":[{entry}],\"level\":1"));
        // Canonical: keys sorted.
        let text = String::from_utf8(forged.layout_json).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        forged.layout_json = serde_json::to_vec(&value).unwrap();
        forged.members.retain(|(other, ..)| other != name);
        exit_of(&forged)
    };
    let blob = small()[3].0.clone();
    assert_eq!(left_out(&blob), ExitCode::Ok);
    assert_eq!(left_out("index.json"), ExitCode::BundleDamaged);
    assert_eq!(left_out("lock.yaml"), ExitCode::BundleDamaged);
    // Here and left out, and never heard of.
    let twice = format!(r#""leftOut":[{{"encoding":"raw","name":"{blob}"}}],"level":1"#);
    assert_eq!(exit_of(&honest().edit_layout("\"level\":1", &twice)), ExitCode::BundleDamaged);
}

#[test]
fn unsupported_parts_of_the_format_are_refused_as_such() {
    let mut recoded = honest();
    let end = recoded.layout_json.len() - 1;
    recoded.layout_json.splice(end.., b",\"recoded\":[\"index.json\"]}".iter().copied());
    assert_eq!(exit_of(&recoded), ExitCode::Unsupported);
}

#[test]
fn a_trailer_with_volumes_that_do_not_exist_is_refused() {
    assert_eq!(exit_of(&Forged { volumes: 3, ..honest() }), ExitCode::BundleDamaged);
    let dir = tempfile::tempdir().unwrap();
    let mut volume = 0x184D_2A5C_u32.to_le_bytes().to_vec();
    volume.extend([0; 40]);
    assert_eq!(open(dir.path(), &volume).unwrap_err().exit_code(), ExitCode::BundleDamaged);
}

#[test]
fn a_seek_table_that_lies_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = honest().bytes();
    let count_at = bytes.len() - 9;
    for count in [0, 1, 3, 1 << 20, u32::MAX] {
        let mut lie = bytes.clone();
        lie[count_at..count_at + 4].copy_from_slice(&u32::to_le_bytes(count));
        assert_eq!(open(dir.path(), &lie).unwrap_err().exit_code(), ExitCode::BundleDamaged, "{count} frames");
    }
    for word in [0, 4] {
        let mut lie = bytes.clone();
        let entry = count_at - 8 * 4 + word;
        lie[entry..entry + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(open(dir.path(), &lie).unwrap_err().exit_code(), ExitCode::BundleDamaged);
    }
}

#[test]
fn a_signature_slot_with_other_content_is_refused() {
    let room = |text: &[u8], pad: u8| {
        let mut room = text.to_vec();
        room.resize(16384, pad);
        exit_of(&Forged { room, ..honest() })
    };
    assert_eq!(
        room(b"[{\"keyId\":\"00112233445566778899aabbccddeeff\",\"alg\":\"ed25519\",\"sig\":\"AA==\"}]", b' '),
        ExitCode::Ok
    );
    assert_eq!(room(b"[]", 0), ExitCode::BundleDamaged);
    assert_eq!(room(b"{}", b' '), ExitCode::BundleDamaged);
    assert_eq!(room(b"[", b'['), ExitCode::BundleDamaged);
    assert_eq!(exit_of(&Forged { room: b"[]".to_vec(), ..honest() }), ExitCode::BundleDamaged);
}

#[test]
fn other_files_are_reported_as_no_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let tar_zst = zstd::encode_all(&[0; 10240][..], 1).unwrap();
    for bytes in [&b"hello"[..], b"\x1f\x8b\x08\0 gzip", b"\x7fELF", &tar_zst] {
        let error = open(dir.path(), bytes).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::NotABundle, "{error}");
    }
    assert_eq!(Bundle::open(dir.path()).unwrap_err().exit_code(), ExitCode::NotABundle);
    assert_eq!(Bundle::open(&dir.path().join("none")).unwrap_err().exit_code(), ExitCode::NoSuchBundle);
}

#[test]
fn a_damaged_beginning_is_damage_as_long_as_the_end_is_a_bundles() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("y.tar.zst");
    write_with(&path, &small(), 1).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[0] ^= 1;
    assert_eq!(open(dir.path(), &bytes).unwrap_err().exit_code(), ExitCode::BundleDamaged);
}

#[test]
fn a_level_that_no_bundle_has_is_refused_when_the_bundle_is_opened() {
    for level in ["0", "-5", "20", "2147483647"] {
        let forged = honest().edit_layout("\"level\":1", &format!("\"level\":{level}"));
        assert_eq!(exit_of(&forged), ExitCode::BundleDamaged, "{level}");
    }
}

#[test]
fn a_file_of_more_volumes_than_there_are_numbers_is_refused() {
    let skippable = |magic: u8, payload: &[u8]| {
        [&[magic, 0x2a, 0x4d, 0x18][..], &(payload.len() as u32).to_le_bytes(), payload].concat()
    };
    let headers = skippable(0x5c, &[0; 88]).repeat(1000);
    let trailer = skippable(0x5d, &[0; 60]);
    let mut table: Vec<u8> = [96_u32, 0].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>().repeat(1000);
    table.extend([trailer.len() as u32, 0, 1001].iter().flat_map(|word| word.to_le_bytes()));
    table.extend([0, 0xb1, 0xea, 0x92, 0x8f]);
    let dir = tempfile::tempdir().unwrap();
    let error = open(dir.path(), &[headers, trailer, skippable(0x5e, &table)].concat()).unwrap_err();
    assert!(error.to_string().contains("more volumes than any bundle has"), "{error}");
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["x.tar.zst", "x.tar.zst.001", "x.tar.zst.002"] {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, dir.path().join(name), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    let at = |names: &[&str]| names.iter().map(|name| dir.path().join(name)).collect::<Vec<_>>();
    for paths in [at(&["x.tar.zst"]), at(&["x.tar.zst.001"]), at(&["x.tar.zst.001", "x.tar.zst.002"])] {
        let (tell, reported) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(Bundle::open_all(&paths).map(drop).map_err(|e| e.to_string())));
        let ended = reported.recv_timeout(std::time::Duration::from_secs(60)).expect("it waits for somebody to write");
        assert!(ended.unwrap_err().contains("not a regular file"));
    }
}

#[test]
fn what_is_wrong_with_a_bundle_quotes_a_part_of_it() {
    let long = "x".repeat(1 << 20);
    let edits: [&dyn Fn(Forged) -> Forged; 3] = [
        &|forged| forged.edit_manifest("{\"arti", &format!("{{\"aaaa{long}\":1,\"arti")),
        &|forged| forged.edit_layout("\"name\":\"", &format!("\"name\":\"{long}")),
        &|forged| forged.edit_layout("\"encoder\":\"", &format!("\"encodes\":\"\",\"encoder\":\"{long}")),
    ];
    for (at, edit) in edits.iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let error = open(dir.path(), &edit(honest()).bytes()).unwrap_err();
        assert!(error.to_string().len() < 5_000, "{at}: {} bytes", error.to_string().len());
    }
}
