//! sources.json: beside the manifest, behind all other members, and under every check that the others are under.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::path::Path;

use crate::support::forge::Forged;
use crate::support::{inputs, manifest, small};
use kubexm_archive::{
    ArchiveError, Bundle, Contents, Delta, Documents, Input, Options, join, members, verify, verify_quick,
    verify_stream, write_contents,
};
use kubexm_spec::sources::{ArtifactSources, SCHEMA};
use kubexm_spec::{ArtifactKey, ExitCode, Sources};

fn sources(mirror: &str) -> Sources {
    let one = ArtifactSources {
        key: ArtifactKey::ExtraFile("x".into()),
        platform: None,
        asked: Some("https://files.test/x".into()),
        candidates: vec![format!("https://{mirror}/x"), "https://files.test/x".into()],
        from: vec![format!("https://{mirror}/x")],
    };
    Sources { schema: SCHEMA.into(), zone: mirror.into(), artifacts: vec![one] }
}

fn write(target: &Path, sources: Option<Input<'_>>, split: Option<u64>) -> Result<Bundle, ArchiveError> {
    let contents = Contents {
        manifest: &manifest(&small()),
        inputs: inputs(&small()),
        delta: Delta::default(),
        signatures: &[],
        groups: Vec::new(),
        sources,
    };
    let written = write_contents(target, contents, &Options { level: 1, threads: 2, split }, &|_, _| {})?;
    Bundle::open(&written.files[0])
}

fn padded(sources: &Sources, more: usize) -> Option<Input<'static>> {
    Some(Input::sources(sources.to_padded(sources.canonical().len() + more).unwrap()))
}

#[test]
fn two_mirrors_give_one_manifest_and_without_sources_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let one = write(&at("1.tar.zst"), padded(&sources("mirror.test"), 0), None).unwrap();
    let other = write(&at("2.tar.zst"), padded(&sources("other-mirror.test"), 300), None).unwrap();
    assert_eq!(one.manifest_json(), other.manifest_json());
    assert_ne!(one.bundle_id(), other.bundle_id());
    assert_eq!(one.sources().unwrap(), Some(sources("mirror.test")));
    assert_eq!(other.sources().unwrap(), Some(sources("other-mirror.test")));
    let (left, right) = (write(&at("3.tar.zst"), None, None).unwrap(), write(&at("4.tar.zst"), None, None).unwrap());
    assert_eq!(left.sources().unwrap(), None);
    assert_eq!((left.manifest_json(), left.bundle_id()), (one.manifest_json(), right.bundle_id()));
    assert_eq!(fs::read(at("3.tar.zst")).unwrap(), fs::read(at("4.tar.zst")).unwrap());
}

#[test]
fn they_come_with_a_stream_and_with_volumes_and_every_changed_byte_of_them_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (file, split) = (dir.path().join("x.tar.zst"), dir.path().join("s.tar.zst"));
    let bundle = write(&file, padded(&sources("mirror.test"), 9), None).unwrap();
    let whole = fs::read(&file).unwrap();
    let streamed = verify_stream(Path::new("-"), &whole[..], 2, &|_, _| {}).unwrap();
    assert!(streamed.bytes.is_ok());
    assert_eq!(streamed.sources().unwrap(), Some(sources("mirror.test")));
    let volumes = write(&split, padded(&sources("mirror.test"), 9), Some(19_000)).unwrap();
    assert_eq!(volumes.sources().unwrap(), Some(sources("mirror.test")));
    join(&volumes, &dir.path().join("joined.tar.zst"), None, &|_, _| {}).unwrap();
    assert_eq!(fs::read(dir.path().join("joined.tar.zst")).unwrap(), whole);

    let member = bundle.find(members::SOURCES).unwrap();
    let (start, len) = (bundle.stored_offset(member) as usize, bundle.stored_size(member) as usize);
    for at in start..start + len {
        let mut bad = whole.clone();
        bad[at] ^= 1;
        fs::write(&file, &bad).unwrap();
        let found = Bundle::open(&file).is_err_and(|e| e.exit_code() == ExitCode::BundleDamaged)
            || Bundle::open(&file)
                .is_ok_and(|b| verify(&b, 2, &|_, _| {}).is_err() && verify_quick(&b, 2, &|_, _| {}).is_err());
        assert!(found, "byte {at} in the file");
        let streamed = verify_stream(Path::new("-"), &bad[..], 2, &|_, _| {});
        assert!(streamed.is_err() || streamed.is_ok_and(|s| s.bytes.is_err()), "byte {at} in a stream");
    }
}

#[test]
fn sources_of_another_form_name_or_size_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let text = sources("mirror.test").canonical();
    for (name, content) in [("list", b"[]".to_vec()), ("front", [b" ", &text[..]].concat())] {
        let bundle = write(&at(name), Some(Input::sources(content)), None).unwrap();
        assert!(bundle.sources().is_err_and(|e| e.exit_code() == ExitCode::BundleDamaged), "{name}");
        assert!(verify(&bundle, 1, &|_, _| {}).unwrap_err().to_string().contains(members::SOURCES), "{name}");
    }
    let short = Input { size: text.len() as u64 + 1, ..Input::sources(text.clone()) };
    assert!(matches!(write(&at("short"), Some(short), None), Err(ArchiveError::InputMismatch { .. })));
    let other = Input::bytes("places.json", text);
    assert!(matches!(write(&at("other"), Some(other), None), Err(ArchiveError::Unwritable { .. })));
}

#[test]
fn a_layout_with_sources_that_do_not_exist_is_refused() {
    for size in ["600", "0", "99999999999999999"] {
        let forged = Forged::honest(&small()).edit_layout("]}", &format!("],\"sources\":{size}}}"));
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.tar.zst"), forged.bytes()).unwrap();
        let error = Bundle::open(&dir.path().join("x.tar.zst")).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::BundleDamaged, "{size}: {error}");
    }
}

#[test]
fn a_bundle_of_format_1_has_no_sources_beside_its_manifest() {
    let code = |sources: bool| {
        let dir = tempfile::tempdir().unwrap();
        let honest = Forged { format: 1, ..Forged::honest(&small()) };
        let mut forged = honest
            .edit_manifest("\"format\":2", "\"format\":1")
            .edit_manifest("\"tool\":\"kubexm-bundle 0.1.0\"", "\"tool\":\"x\",\"zone\":\"office\"")
            .edit_layout("\"format\":2", "\"format\":1");
        if sources {
            let content = self::sources("evil.test").canonical();
            let size = content.len() as u64;
            forged = forged.edit_layout("]}", &format!("],\"sources\":{size}}}"));
            forged.members.push((members::SOURCES.to_owned(), size, content));
        }
        fs::write(dir.path().join("x.tar.zst"), forged.bytes()).unwrap();
        let streamed = verify_stream(Path::new("-"), &forged.bytes()[..], 1, &|_, _| {});
        (Bundle::open(&dir.path().join("x.tar.zst")).map(drop).map_err(|e| e.exit_code()), streamed.is_ok())
    };
    assert_eq!(code(false), (Ok(()), true));
    assert_eq!(code(true), (Err(ExitCode::BundleDamaged), false));
}

#[test]
fn fields_of_another_format_are_refused() {
    let code = |forged: Forged| {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.tar.zst"), forged.bytes()).unwrap();
        Bundle::open(&dir.path().join("x.tar.zst")).map(drop).map_err(|e| e.exit_code())
    };
    let honest = || Forged::honest(&small());
    assert_eq!(code(honest()), Ok(()));
    let damaged = Err(ExitCode::BundleDamaged);
    assert_eq!(
        code(honest().edit_manifest("\"tool\":\"kubexm-bundle 0.1.0\"", "\"tool\":\"x\",\"zone\":\"office\"")),
        damaged
    );
    assert_eq!(code(honest().edit_manifest("\"format\":2", "\"format\":1")), damaged, "without a zone");
    assert_eq!(code(honest().edit_layout("\"format\":2", "\"format\":1")), damaged, "two formats");
    assert_eq!(code(Forged { format: 1, ..honest() }), damaged, "another one in the trailer");
}
