//! The programs built for aarch64, under qemu's user mode: the agent in a directory as its root, and a bundle verified.
//!
//! `KUBEXM_AARCH64` names the folder that `scripts/release aarch64` wrote. Not part of a plain `cargo test`, which has no
//! such folder; `scripts/test` runs it. What a node does by other programs (units, mounts, kubeadm) is not tried here:
//! in the directory there are none.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what cannot continue fails the test")]

mod agent;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use agent::{Agent, Root};
use kubexm_archive::{Input, Options, members, write};
use kubexm_engine::link::wire::{Request, Response, Secrets};
use kubexm_manifests::Catalogue;
use kubexm_plan::op::{Binary, Content, Dir, File, Link, Unpacked};
use kubexm_plan::{ObservedState, Op, Step, Texts, Undo, Wave};
use kubexm_spec::manifest::{Manifest, Member};
use kubexm_spec::{Arch, Digest, cluster};
use kubexm_tests::synthetic::SyntheticBundle;

/// Debian's qemu-user-static.
const QEMU: &str = "/usr/bin/qemu-aarch64-static";

const CLUSTER: &str = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  \
    hosts: [{name: n1, address: 10.77.0.11, user: operator, privateKeyPath: /nowhere/key}]\n  \
    roleGroups: {master: [n1], worker: [n1]}\n";

/// One of the two programs, as `scripts/release` named it.
fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("KUBEXM_AARCH64").expect("KUBEXM_AARCH64 names no folder of aarch64 programs");
    let wanted = format!("{name}-{}-linux-arm64", env!("CARGO_PKG_VERSION"));
    let path = Path::new(&folder).join(wanted);
    assert!(path.is_file(), "{} is not there: run scripts/release aarch64", path.display());
    path
}

fn run(name: &str, args: &[&str]) -> Output {
    Command::new(QEMU).arg(program(name)).args(args).output().expect("qemu-user-static is installed")
}

#[test]
fn the_agent_says_what_it_was_built_for() {
    let root = Root::new();
    let agent = Agent::start(&root, &[]);
    assert_eq!(agent.arch, Some(Arch::Arm64));
    agent.bye();
}

#[test]
fn ops_hold_afterwards_and_are_rolled_back_whole() {
    let root = Root::new();
    root.put("/etc/demo/kept.conf", "before\n");
    let before = root.tree();
    let text = "after\n".to_owned();
    let digest = Digest::of(&text);
    let texts: Texts = [(digest, text)].into();
    let step = Step::on("n1", "test.files", "Write files")
        .ensure(Op::Dir(Dir { path: "/opt/demo/bin".into(), mode: 0o750 }))
        .ensure(Op::File(File { path: "/etc/demo/kept.conf".into(), content: Content::Text { digest }, mode: 0o600 }))
        .ensure(Op::Link(Link { path: "/etc/demo/link".into(), target: "kept.conf".into(), accepted: Vec::new() }))
        .undo(Undo::RestoreBefore)
        .build();

    let mut agent = Agent::start(&root, &[]);
    let found = agent.observe(&step, &texts);
    assert!(found.iter().all(|found| !found.satisfied), "{found:?}");
    assert!(matches!(agent.converge(&step, &texts, &found), Response::Converged));
    assert!(agent.observe(&step, &texts).iter().all(|found| found.satisfied));
    assert_eq!(std::fs::read_to_string(root.path("/etc/demo/link")).unwrap(), "after\n");

    for wave in Wave::ALL {
        let ask = Request::Undo {
            step: Box::new(step.clone()),
            texts: texts.clone(),
            run: "run".into(),
            sequence: 2,
            before: found.clone(),
            wave,
        };
        let answer = agent.ask(ask);
        assert!(matches!(answer, Response::Undone), "{answer:?}");
    }
    let Response::Ledger { records } = agent.ask(Request::Ledger) else { panic!("no ledger") };
    assert!(!records.is_empty() && records.iter().all(|record| record.step == step.id), "{records:?}");
    agent.bye();
    assert_eq!(root.tree(), before);
}

#[test]
fn blobs_arrive_whole_and_are_unpacked() {
    let root = Root::new();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let archive = tar_gz("bin/tool", &bytes);
    let (program, packed) = (Digest::of(&bytes), Digest::of(&archive));
    let mut store = Agent::start(&root, &["store"]);
    for (digest, content) in [(program, &bytes), (packed, &archive)] {
        let answer = store.put(digest, content);
        assert!(matches!(answer, Response::Stored), "{answer:?}");
    }
    let answer = store.put(Digest::of("something else"), b"these bytes");
    assert!(matches!(answer, Response::Corrupt { .. }), "{answer:?}");
    store.bye();

    let step = Step::on("n1", "test.programs", "Place programs")
        .ensure(Op::Binary(Binary { path: "/usr/local/bin/plain".into(), blob: program, mode: 0o755 }))
        .ensure(Op::Unpacked(Unpacked {
            blob: packed,
            members: [("bin/tool".to_owned(), "/usr/local/bin/tool".to_owned())].into(),
            all_into: None,
        }))
        .undo(Undo::RestoreBefore)
        .build();
    let mut agent = Agent::start(&root, &[]);
    let found = agent.observe(&step, &Texts::new());
    let answer = agent.converge(&step, &Texts::new(), &found);
    assert!(matches!(answer, Response::Converged), "{answer:?}");
    agent.bye();
    for name in ["plain", "tool"] {
        assert_eq!(std::fs::read(root.path(&format!("/usr/local/bin/{name}"))).unwrap(), bytes, "{name}");
    }
}

#[test]
fn help_is_shown_by_both() {
    for name in ["kubexm-bundle", "kubexm-install"] {
        let output = run(name, &["--help"]);
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8(output.stdout).unwrap().contains("Usage: "), "{name}");
    }
}

#[test]
fn a_bundle_verifies_and_one_flipped_byte_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("site.tar.zst");
    let needle = write_bundle(&file);
    let verify = || run("kubexm-bundle", &["verify", file.to_str().unwrap()]);
    let output = verify();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(needle.len()).position(|window| window == needle).expect("stored as it is");
    bytes[at + needle.len() - 1] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let output = verify();
    assert_eq!(output.status.code(), Some(30), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A bundle with everything a cluster requires; returns a piece of it that is stored uncompressed.
fn write_bundle(path: &Path) -> Vec<u8> {
    let catalogue = Catalogue::embedded();
    let cluster = cluster::parse(CLUSTER).unwrap();
    let bundle = SyntheticBundle::of(&cluster, &catalogue).unwrap();
    let lock = b"lock: 1\n".to_vec();
    let mut contents: Vec<(String, Vec<u8>)> = vec![
        ("lock.yaml".into(), lock.clone()),
        ("cluster.yaml".into(), CLUSTER.as_bytes().to_vec()),
        ("catalogue.json".into(), catalogue.to_json().unwrap()),
        ("oci-layout".into(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
        ("index.json".into(), br#"{"schemaVersion":2,"manifests":[]}"#.to_vec()),
    ];
    let packed = bundle.blobs.values().find(|blob| blob.starts_with(b"\x1f\x8b")).expect("an archive").clone();
    contents.extend(bundle.blobs.into_iter().map(|(digest, blob)| (members::blob_name(&digest), blob)));
    let listed = contents.iter().map(|(name, content)| Member {
        name: name.clone(),
        size: content.len() as u64,
        sha256: Digest::of(content),
    });
    let manifest = Manifest { lock: Digest::of(&lock), members: listed.collect(), ..bundle.manifest };
    let inputs = contents.into_iter().map(|(name, content)| Input::bytes(name, content)).collect();
    write(path, &manifest, inputs, &Options::default(), &|_, _| {}).unwrap();
    packed
}

fn tar_gz(name: &str, content: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o755);
    builder.append_data(&mut header, name, content).unwrap();
    builder.into_inner().unwrap().finish().unwrap()
}

impl Agent {
    fn observe(&mut self, step: &Step, texts: &Texts) -> Vec<ObservedState> {
        let ask = Request::Observe { step: Box::new(step.clone()), texts: texts.clone(), slots: Secrets::default() };
        match self.ask(ask) {
            Response::Observed { found } => found,
            other => panic!("{other:?}"),
        }
    }

    fn converge(&mut self, step: &Step, texts: &Texts, before: &[ObservedState]) -> Response {
        self.ask(Request::Converge {
            step: Box::new(step.clone()),
            texts: texts.clone(),
            slots: Secrets::default(),
            run: "run".into(),
            sequence: 1,
            before: before.to_vec(),
        })
    }
}
