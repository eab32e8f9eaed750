//! Members that are compressed together: what a bundle has to be must be so with groups, too.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::forge::{Forged, WINDOW};
use crate::support::{blob, inputs, manifest, noise, small};
use kubexm_archive::{
    ArchiveError, Bundle, Contents, Delta, Group, Options, Signature, StoredMember, Written, encoding_for, join, merge,
    verify, verify_quick, verify_stream, write_contents,
};
use kubexm_spec::{Digest, ExitCode};

type Named = (String, Vec<u8>);

/// A program: bytes that it has in common with the others, and some of its own.
fn program(number: u64) -> Vec<u8> {
    [b"\x7fELF".to_vec(), noise(40_000, number + 50), noise(3 << 20, 7), noise(10_000, number + 90)].concat()
}

/// Small members, four programs, the last of which is empty of common bytes, and something behind them.
fn contents() -> Vec<Named> {
    let mut all = small();
    all.extend((0..3).map(|number| blob(program(number))));
    all.push(blob(b"a small one ".repeat(9_000)));
    all.push(blob(noise(9 << 20, 31)));
    all
}

const PROGRAMS: std::ops::Range<usize> = 6..10;

fn groups(contents: &[Named]) -> Vec<Group> {
    let manifest = manifest(contents);
    let programs = PROGRAMS.map(|at| contents[at].0.as_str()).collect::<Vec<_>>();
    Group::of(manifest.members.iter().map(|member| (member, programs.contains(&member.name.as_str()))), 3)
}

fn options(threads: usize, split: Option<u64>) -> Options {
    Options { level: 1, threads, split }
}

fn write(
    target: &Path,
    contents: &[Named],
    left_out: &[&str],
    signatures: &[Signature],
    options: Options,
) -> Result<Written, ArchiveError> {
    let manifest = manifest(contents);
    let out = |name: &str| left_out.contains(&name);
    let listed = contents.iter().filter(|(name, _)| out(name));
    let left_out =
        listed.map(|(name, content)| StoredMember { name: name.clone(), encoding: encoding_for(content) }).collect();
    let inputs = inputs(contents).into_iter().filter(|input| !out(&input.name)).collect();
    let delta = Delta { base: None, left_out };
    let groups = groups(contents);
    let contents = Contents { manifest: &manifest, inputs, delta, signatures, groups, sources: None };
    write_contents(target, contents, &options, &|_, _| {})
}

fn written(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    write(&path, &contents(), &[], &[], options(2, None)).unwrap();
    path
}

/// The frame of the group: where it begins, and its length.
fn frame_of_group(bundle: &Bundle) -> (usize, usize) {
    let at = |at: usize| bundle.stored_offset(bundle.find(&contents()[at].0).unwrap()) as usize;
    (at(PROGRAMS.start), at(PROGRAMS.end) - at(PROGRAMS.start))
}

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    contents()[range].iter().map(|(name, _)| name.clone()).collect()
}

#[test]
fn programs_share_what_they_have_in_common_and_read_back_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), "x.tar.zst");
    let bundle = Bundle::open(&path).unwrap();
    assert!(path.metadata().unwrap().len() < (3 << 20) + (9 << 20) + 400_000, "three programs take the place of one");
    for (name, content) in &contents() {
        assert!(bundle.read(name, 1 << 30).unwrap() == *content, "{name}");
        for offset in [0, content.len() as u64 / 3, content.len() as u64 / 2, content.len() as u64] {
            let mut part = Vec::new();
            let reader = bundle.part(name, offset).unwrap().without_verification();
            reader.take(5_000_000).read_to_end(&mut part).unwrap();
            assert!(
                content[offset as usize..].starts_with(&part)
                    && (part.len() == content.len() - offset as usize || part.len() == 5_000_000),
                "{name}"
            );
            let mut rest = Vec::new();
            bundle.member_from(name, offset).unwrap().read_to_end(&mut rest).unwrap();
            assert!(rest == content[offset as usize..], "{name} from {offset}");
        }
    }
    for threads in [1, 2, 5] {
        verify(&bundle, threads, &|_, _| {}).unwrap();
        verify_quick(&bundle, threads, &|_, _| {}).unwrap();
        let stream = verify_stream(Path::new("-"), fs::File::open(&path).unwrap(), threads, &|_, _| {}).unwrap();
        assert_eq!(stream.bytes.unwrap(), verify(&bundle, threads, &|_, _| {}).unwrap());
    }
}

/// Readers go on where the last one stopped; whatever the order, and whatever was read of others, they give the same.
#[test]
fn members_of_a_group_are_read_in_any_order_and_from_several_threads() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = small();
    // Contents that end where a piece of a reader ends, and a little before and behind.
    all.extend([(1 << 20) - 512, 1 << 20, (2 << 20) - 1, 3 << 20].map(|len: usize| blob(noise(len, len as u64))));
    all.push(blob(b"behind".to_vec()));
    let path = dir.path().join("x.tar.zst");
    write(&path, &all, &[], &[], options(2, None)).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    for order in [[6, 7, 8, 9], [9, 8, 7, 6], [7, 6, 9, 8], [6, 6, 9, 9], [8, 9, 6, 7]] {
        for at in order {
            let (name, content) = &all[at];
            assert!(bundle.read(name, 1 << 30).unwrap() == *content, "{name} of {order:?}");
            let mut begun = bundle.member(name).unwrap();
            begun.read_exact(&mut [0; 1000]).unwrap();
        }
        verify(&bundle, 2, &|_, _| {}).unwrap();
    }
    std::thread::scope(|scope| {
        for start in 0..4 {
            let (bundle, all) = (bundle.clone(), &all);
            scope.spawn(move || {
                for number in 0..8 {
                    let (name, content) = &all[6 + (start + number) % 4];
                    assert!(bundle.read(name, 1 << 30).unwrap() == *content, "{name}");
                }
            });
        }
    });
}

/// The claim of libzstd on which this rests: with at least one worker, output does not depend on their number.
#[test]
fn the_bytes_do_not_depend_on_the_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
    // Of several jobs, and with matches from one job into another.
    let mut all = small();
    let large = noise(19 << 20, 4);
    all.extend([blob(large.clone()), blob([noise(5, 5), large].concat()), blob(b"text ".repeat(3 << 20))]);
    all.push(blob(b"a".to_vec()));
    write(&one, &all, &[], &[], options(1, None)).unwrap();
    assert!(one.metadata().unwrap().len() < 21 << 20, "the second is a copy of the first");
    for threads in [2, 3, 16] {
        write(&other, &all, &[], &[], options(threads, None)).unwrap();
        assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap(), "{threads}");
    }
}

#[test]
fn stock_tools_read_a_bundle_with_groups() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), "x.tar.zst");
    let ran = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).arg(&path).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    };
    ran("zstd", &["-q", "-t"]);
    ran("tar", &["--zstd", "-xf"]);
    for (name, content) in &contents() {
        assert!(fs::read(dir.path().join(name)).unwrap() == *content, "{name}");
    }
}

#[test]
fn a_damaged_group_names_every_member_that_it_takes_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), "x.tar.zst");
    let (start, len) = frame_of_group(&Bundle::open(&path).unwrap());
    let whole = fs::read(&path).unwrap();
    let hurt = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&path, bytes).unwrap();
        Bundle::open(&path).unwrap()
    };
    let parts = |report: kubexm_archive::DamageReport| {
        let mut parts: Vec<String> = report.damages.into_iter().map(|damage| damage.part).collect();
        parts.sort();
        parts
    };
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    // The begin: nothing can be decoded. The checksum: the last member ends with it. Frames alone say nothing of members.
    let last = PROGRAMS.end - 1;
    for (at, threads, lost) in [(start, 1, PROGRAMS), (start + 5, 2, PROGRAMS), (start + len - 1, 2, last..last + 1)] {
        let bundle = hurt(at);
        let found = parts(verify(&bundle, threads, &|_, _| {}).unwrap_err());
        assert_eq!(found, sorted(names(lost.clone())), "byte {at}");
        let quick = parts(verify_quick(&bundle, threads, &|_, _| {}).unwrap_err());
        assert_eq!(quick, sorted(names(PROGRAMS)), "byte {at}");
        let stream = verify_stream(Path::new("-"), fs::File::open(&path).unwrap(), threads, &|_, _| {}).unwrap();
        let streamed = parts(stream.bytes.unwrap_err());
        assert!(names(lost).iter().all(|name| streamed.contains(name)), "byte {at}: {streamed:?}");
    }
    // What is before the damage, and what is beside the group, can be read.
    let bundle = hurt(start + len - 200);
    let found = parts(verify(&bundle, 2, &|_, _| {}).unwrap_err());
    assert!(
        found.contains(&names(PROGRAMS)[3]) && found.iter().all(|name| names(PROGRAMS).contains(name)),
        "{found:?}"
    );
    for (name, content) in contents().into_iter().filter(|(name, _)| !found.contains(name)) {
        assert!(bundle.read(&name, 1 << 30).unwrap() == content, "{name}");
    }
    let error = bundle.read(&names(PROGRAMS)[3], 1 << 30).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::BundleDamaged);
    // A part is compared with the trailer before any of it is given.
    let mut part = bundle.part(&names(PROGRAMS)[0], 5).unwrap().without_verification();
    assert!(part.read(&mut [0; 10]).is_err());
}

#[test]
fn every_changed_byte_of_a_small_group_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let mut all = small();
    all.extend([
        blob(b"one ".repeat(60)),
        blob(b"one two ".repeat(30)),
        blob(Vec::from(b"x")),
        blob(noise(300, 4)),
        blob(b"behind".to_vec()),
    ]);
    write(&path, &all, &[], &[], options(2, None)).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    let at = |at: usize| bundle.stored_offset(bundle.find(&all[at].0).unwrap()) as usize;
    let (start, len) = (at(PROGRAMS.start), at(PROGRAMS.end) - at(PROGRAMS.start));
    assert_eq!(
        bundle.members().map(|member| bundle.stored_size(member)).sum::<u64>(),
        bundle.stored_offset(bundle.find(&all[PROGRAMS.end].0).unwrap())
            + bundle.stored_size(bundle.find(&all[PROGRAMS.end].0).unwrap())
    );
    let whole = fs::read(&path).unwrap();
    for at in start..start + len {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        assert!(crate::support::is_whole(&path).is_err(), "byte {at}");
        let stream = verify_stream(Path::new("-"), &bytes[..], 2, &|_, _| {});
        assert!(!stream.is_ok_and(|stream| stream.bytes.is_ok()), "byte {at} in a stream");
    }
}

#[test]
fn a_group_is_in_one_volume_and_joins_to_the_bytes_of_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let one = written(dir.path(), "one.tar.zst");
    let whole = fs::read(&one).unwrap();
    let (start, len) = frame_of_group(&Bundle::open(&one).unwrap());
    // The group does not fit behind what is before it, and then not at all.
    let split = len as u64 + (9 << 20);
    let path = dir.path().join("split.tar.zst");
    let written = write(&path, &contents(), &[], &[], options(3, Some(split))).unwrap();
    assert!(written.files.len() > 1 && written.files.iter().all(|file| file.metadata().unwrap().len() <= split));
    let sums =
        Command::new("sha256sum").args(["-c", "--quiet", "split.sums"]).current_dir(dir.path()).status().unwrap();
    assert!(sums.success());
    let tight = len as u64 + start as u64 + 96 - 1;
    let moved = dir.path().join("moved.tar.zst");
    let refused = dir.path().join("refused.tar.zst");
    let fits = match write(&refused, &contents(), &[], &[], options(2, Some(len as u64))) {
        Err(ArchiveError::SplitTooSmall { split, fits }) => {
            assert_eq!(split, len as u64);
            fits
        }
        other => panic!("{other:?}"),
    };
    assert!(
        fs::read_dir(dir.path()).unwrap().all(|one| !one.unwrap().file_name().to_string_lossy().contains("refused"))
    );
    write(&refused, &contents(), &[], &[], options(2, Some(fits))).unwrap();
    if tight > 9 << 20 {
        let files = write(&moved, &contents(), &[], &[], options(2, Some(tight))).unwrap().files;
        assert!(files.len() > 2, "{files:?}");
    }
    for name in ["split.tar.zst.001", "refused.tar.zst.001"] {
        let bundle = Bundle::open(&dir.path().join(name)).unwrap();
        verify(&bundle, 2, &|_, _| {}).unwrap();
        let joined = dir.path().join("joined.tar.zst");
        join(&bundle, &joined, None, &|_, _| {}).unwrap();
        assert!(fs::read(&joined).unwrap() == whole, "{name}");
    }
    let again = dir.path().join("again.tar.zst");
    join(&Bundle::open(&one).unwrap(), &again, Some(split), &|_, _| {}).unwrap();
    for file in written.files {
        let name = file.file_name().unwrap().to_str().unwrap().replace("split", "again");
        assert!(fs::read(&file).unwrap() == fs::read(dir.path().join(name)).unwrap());
    }
    let mut all = Vec::new();
    for number in 1.. {
        let Ok(bytes) = fs::read(dir.path().join(format!("split.tar.zst.{number:03}"))) else { break };
        all.extend(bytes);
    }
    let stream = verify_stream(Path::new("-"), &all[..], 2, &|_, _| {}).unwrap();
    stream.bytes.unwrap();
}

/// What was before the group in its volume stays, and only the group moves to the next one.
#[test]
fn a_group_that_does_not_fit_any_more_moves_to_the_next_volume() {
    let dir = tempfile::tempdir().unwrap();
    let one = written(dir.path(), "one.tar.zst");
    let (start, len) = frame_of_group(&Bundle::open(&one).unwrap());
    let mut all = contents();
    all.truncate(PROGRAMS.end);
    // Room for what is before the group, and for all but its last byte.
    let split = (96 + start + len - 1) as u64;
    let path = dir.path().join("moved.tar.zst");
    let files = write(&path, &all, &[], &[], options(2, Some(split))).unwrap().files;
    assert_eq!(files.len(), 2);
    assert_eq!(files[0].metadata().unwrap().len(), 96 + start as u64);
    let bundle = Bundle::open(&files[0]).unwrap();
    verify(&bundle, 2, &|_, _| {}).unwrap();
    let sums =
        Command::new("sha256sum").args(["-c", "--quiet", "moved.sums"]).current_dir(dir.path()).status().unwrap();
    assert!(sums.success());
}

#[test]
fn a_delta_has_what_is_new_of_a_group_and_merges_to_the_bytes_of_the_full_build() {
    let dir = tempfile::tempdir().unwrap();
    let full = written(dir.path(), "full.tar.zst");
    for (name, left_out) in [("some", 6..8), ("first", 6..7), ("one", 7..10), ("all", 6..11)] {
        let [path, merged] = [name, "merged"].map(|name| dir.path().join(name));
        let left_out = names(left_out);
        let left_out: Vec<&str> = left_out.iter().map(String::as_str).collect();
        write(&path, &contents(), &left_out, &[], options(2, None)).unwrap();
        let delta = Bundle::open(&path).unwrap();
        verify(&delta, 2, &|_, _| {}).unwrap();
        let stream = verify_stream(Path::new("-"), fs::File::open(&path).unwrap(), 2, &|_, _| {}).unwrap();
        stream.bytes.unwrap();
        let delta = delta.on_bases(vec![Bundle::open(&full).unwrap()]).unwrap();
        for (name, content) in &contents() {
            assert!(delta.read(name, 1 << 30).unwrap() == *content, "{name}");
        }
        merge(&delta, &merged, 3, &|_, _| {}).unwrap();
        assert!(fs::read(&merged).unwrap() == fs::read(&full).unwrap(), "{name}");
    }
}

#[test]
fn an_input_of_a_group_that_is_not_what_was_promised_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let all = contents();
    let name = &all[7].0;
    for content in [vec![1; 100], noise(program(1).len(), 3), noise(program(1).len() + 1, 3)] {
        let manifest = manifest(&all);
        let mut inputs = inputs(&all);
        inputs[7].open = Box::new(move || Ok(Box::new(std::io::Cursor::new(content.clone()))));
        let groups = groups(&all);
        let delta = Delta::default();
        let contents = Contents { manifest: &manifest, inputs, delta, signatures: &[], groups, sources: None };
        match write_contents(&path, contents, &options(2, None), &|_, _| {}) {
            Err(ArchiveError::InputMismatch { name: named, .. }) => assert_eq!(named, *name),
            other => panic!("{other:?}"),
        }
        assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
    }
}

#[test]
fn groups_are_cut_at_their_limit_and_nothing_is_grouped_alone() {
    let member = |number: u64, size: u64| kubexm_spec::manifest::Member {
        name: format!("blobs/sha256/{number}"),
        size,
        sha256: Digest::of(number.to_le_bytes()),
    };
    let mib = |size: u64| (size << 20) - 512;
    let sizes =
        [(100, true), (100, true), (56, true), (1, true), (3, false), (70, true), (300, true), (2, true), (2, true)];
    let members: Vec<_> =
        (0..).zip(sizes).map(|(number, (size, together))| (member(number, mib(size)), together)).collect();
    let found = Group::of(members.iter().map(|(member, together)| (member, *together)), 3);
    let found: Vec<(&str, usize)> = found.iter().map(|group| (&group.first[13..], group.members)).collect();
    assert_eq!(found, [("0", 3), ("7", 2)]);
}

fn open(bytes: &[u8]) -> Result<Bundle, ArchiveError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    fs::write(&path, bytes).unwrap();
    Bundle::open(&path)
}

fn forged() -> Forged {
    let mut all = small();
    all.extend([blob(b"one ".repeat(90)), blob(b"two ".repeat(90)), blob(noise(900, 4))]);
    Forged::grouped(&all, 6..9)
}

fn code(forged: &Forged) -> ExitCode {
    let bytes = forged.bytes();
    let file = open(&bytes).and_then(|bundle| {
        verify(&bundle, 1, &|_, _| {}).map_err(|report| ArchiveError::Unwritable { problem: report.to_string() })
    });
    let code = match file {
        Ok(_) => ExitCode::Ok,
        Err(ArchiveError::Unwritable { .. }) => ExitCode::BundleDamaged,
        Err(error) => error.exit_code(),
    };
    let stream = verify_stream(Path::new("-"), &bytes[..], 1, &|_, _| {}).map(|stream| stream.bytes.is_ok());
    assert_eq!(stream.is_ok_and(|right| right), code == ExitCode::Ok, "a stream and a file are judged differently");
    code
}

#[test]
fn a_group_that_contradicts_itself_is_refused() {
    assert_eq!(code(&forged()), ExitCode::Ok);
    let first = format!("\"first\":\"{}\"", forged().members[6].0);
    let named = |at: usize| format!("\"first\":\"{}\"", forged().members[at].0);
    for (from, to) in [
        // Beyond the members, of none, of one that is not there, of more than the frame has, of documents.
        ("\"members\":3}", "\"members\":4}"),
        ("\"members\":3}", "\"members\":0}"),
        ("\"members\":3}", "\"members\":18446744073709551615}"),
        ("\"members\":3}", "\"members\":2}"),
        (first.as_str(), "\"first\":\"blobs/sha256/00\""),
        (first.as_str(), named(5).as_str()),
        (first.as_str(), named(7).as_str()),
        (first.as_str(), named(2).as_str()),
        ("\"level\":3", "\"level\":0"),
        ("\"level\":3", "\"level\":20"),
    ] {
        assert_eq!(code(&forged().edit_layout(from, to)), ExitCode::BundleDamaged, "{from} {to}");
    }
    // A member of two groups, and one that is stored raw.
    let text = String::from_utf8(forged().layout_json).unwrap();
    let group = &text[text.find("{\"first\"").unwrap()..text.find("],\"level\"").unwrap()];
    assert_eq!(code(&forged().edit_layout(group, &format!("{group},{group}"))), ExitCode::BundleDamaged);
    let zstd = format!(r#"{{"encoding":"zstd","name":"{}"}}"#, forged().members[7].0);
    assert_eq!(code(&forged().edit_layout(&zstd, &zstd.replace("zstd", "raw"))), ExitCode::BundleDamaged);
    // Of a program of another kind.
    assert_eq!(code(&forged().edit_layout("\"level\":3", "\"dictionary\":1,\"level\":3")), ExitCode::BundleNewer);
}

#[test]
fn a_frame_that_asks_for_more_than_a_group_may_is_refused() {
    assert_eq!(code(&Forged { window: WINDOW, ..forged() }), ExitCode::Ok);
    for window in [WINDOW + 1, 18 << 3, 31 << 3] {
        let forged = Forged { window, ..forged() };
        assert_eq!(code(&forged), ExitCode::BundleDamaged, "{window}");
        let bundle = open(&forged.bytes()).unwrap();
        let error = bundle.read(&forged.members[7].0, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("needs a window of more than 134217728 bytes"), "{error}");
    }
    for stated in [0, 1, 1 << 28, u32::MAX] {
        assert_eq!(code(&Forged { stated: Some(stated), ..forged() }), ExitCode::BundleDamaged, "{stated}");
    }
    // Members that are larger together than a group may be, in a file that is not.
    let size = forged().members[6].1;
    let manifest = forged().edit_manifest(&format!("\"size\":{size}"), "\"size\":268435456");
    assert_eq!(code(&manifest), ExitCode::BundleDamaged);
}

/// A frame of zeros that states what it has: no more of it is in memory than a window and a piece.
#[test]
fn a_group_is_decoded_no_further_than_its_members_reach() {
    let bomb = zstd::encode_all(&vec![0_u8; 64 << 20][..], 19).unwrap();
    let mut forged = forged();
    let content = [b"one ".repeat(90), bomb].concat();
    forged.members[6].2 = content;
    assert_eq!(code(&forged), ExitCode::BundleDamaged);
}
