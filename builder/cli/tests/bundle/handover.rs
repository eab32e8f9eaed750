//! `hand-over`: a folder that is checked with sha256sum and openssl alone, and that is whole or not there.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use assert_cmd::Command;
use kubexm_archive::{Bundle, Contents, Delta, Input, Options, Signature, Signing, write, write_contents};
use kubexm_builder::hand_over::{HandOver, Signer};
use kubexm_spec::manifest::{Artifact, Blob, ClusterSummary, Member};
use kubexm_spec::{ArtifactKey, Digest, ExitCode, Platform, SignedAt, Trust};

use crate::disk::Tmpfs;
use crate::site::{Ended, Site, assert_contains, digest, names, noise};

/// A 64-bit ELF header for a machine, and something behind it.
fn program(machine: u8) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01".to_vec();
    bytes.resize(18, 0);
    bytes.extend([machine, 0]);
    bytes.extend(noise(machine.into(), 5000));
    bytes
}

/// A bundle of a cluster that carries kubexm-install for both platforms, and keys `a` (ECDSA) and `b` (Ed25519).
fn built() -> Site {
    let site = Site::new();
    site.write("a.bin", noise(7, 20_000_000));
    site.extras("extraFiles: [{path: a.bin}]");
    site.built(&[]);
    let bundle = Bundle::open(&site.path("out.tar.zst")).unwrap();
    let mut manifest = bundle.manifest().clone();
    let mut contents: Vec<(String, Vec<u8>)> =
        manifest.members.iter().map(|m| (m.name.clone(), bundle.read(&m.name, 1 << 30).unwrap())).collect();
    for (platform, machine) in [(Platform::LINUX_AMD64, 62), (Platform::LINUX_ARM64, 183)] {
        let content = program(machine);
        let digest = Digest::of(&content);
        manifest.artifacts.push(Artifact {
            key: ArtifactKey::Installer,
            version: "0.1.0".into(),
            platform: Some(platform),
            name: "kubexm-install".into(),
            digest,
            manifest: None,
            blobs: vec![Blob { digest, size: content.len() as u64 }],
            trust: Trust::SelfBuilt,
            sources: None,
        });
        contents.push((kubexm_archive::members::blob_name(&digest), content));
    }
    manifest.platforms = vec![Platform::LINUX_AMD64, Platform::LINUX_ARM64];
    manifest.cluster = Some(ClusterSummary {
        kubernetes: "v1.34.4".into(),
        runtime: "containerd 2.2.1".into(),
        network: "flannel v0.28.4".into(),
    });
    manifest.members = contents
        .iter()
        .map(|(name, content)| Member { name: name.clone(), size: content.len() as u64, sha256: Digest::of(content) })
        .collect();
    let inputs = contents.into_iter().map(|(name, content)| Input::bytes(name, content)).collect();
    write(&site.path("site.tar.zst"), &manifest, inputs, &Options::default(), &|_, _| {}).unwrap();
    site.run(&["keygen", "-o", "a"]).must(ExitCode::Ok);
    site.run(&["keygen", "--algorithm", "ed25519", "-o", "b"]).must(ExitCode::Ok);
    site
}

fn hand_over(site: &Site, more: &[&str]) -> Ended {
    site.run(&[&["hand-over", "site.tar.zst", "folder"], more].concat())
}

fn in_folder(site: &Site, program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).current_dir(site.path("folder")).output().unwrap()
}

/// Every line of the sums holds, and every file but the sums and their signature is in them.
fn sums_hold(site: &Site) {
    let checked = in_folder(site, "sha256sum", &["--strict", "-c", "site.sums"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let sums = std::fs::read_to_string(site.path("folder/site.sums")).unwrap();
    let mut listed: Vec<_> = sums.lines().map(|line| line.split_once("  ").unwrap().1.to_owned()).collect();
    listed.sort();
    let there: Vec<_> = names(&site.path("folder")).into_iter().filter(|name| !name.starts_with("site.sums")).collect();
    assert_eq!(listed, there);
}

/// The command of the page that begins so, with its continuation lines.
fn command(page: &str, begin: &str) -> String {
    let start = page.find(begin).unwrap_or_else(|| panic!("{begin:?} is not in: {page}"));
    let mut command = String::new();
    for line in page[start..].lines() {
        command.push_str(line.trim_end_matches('\\'));
        if !line.ends_with('\\') {
            break;
        }
    }
    command
}

#[test]
fn the_page_leads_through_with_stock_tools_for_both_kinds_of_key() {
    for (key, check) in [("a", "openssl dgst"), ("b", "openssl pkeyutl")] {
        let site = built();
        let before = digest(&site.path("site.tar.zst"));
        let private = format!("{key}.key");
        let document = hand_over(&site, &["--key", &private, "--json"]).must(ExitCode::Ok).document();
        assert_eq!(document["schema"], "kubexm.io/hand-over/v1");
        assert_eq!(digest(&site.path("site.tar.zst")), before, "the bundle that is read is never changed");
        sums_hold(&site);
        let folder = site.path("folder");
        let wanted = [
            "README.txt",
            "kubexm-install-linux-amd64",
            "kubexm-install-linux-arm64",
            "site.pub",
            "site.sums",
            "site.sums.sig",
            "site.tar.zst",
        ];
        assert_eq!(names(&folder), wanted);
        for (name, machine) in [("amd64", 62), ("arm64", 183)] {
            let path = folder.join(format!("kubexm-install-linux-{name}"));
            assert_eq!(std::fs::read(&path).unwrap(), program(machine));
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        }
        let page = std::fs::read_to_string(folder.join("README.txt")).unwrap();
        assert!(page.is_ascii(), "{page}");
        assert_contains(
            &page,
            &["Kubernetes v1.34.4", "ANOTHER way", "proves", "chmod +x", "preflight --bundle site.tar.zst --key"],
        );

        // The key that came another way.
        std::fs::copy(site.path(&format!("{key}.pub")), folder.join("release.pub")).unwrap();
        let verify = command(&page, check);
        let verified = in_folder(&site, "sh", &["-c", &verify]);
        assert!(verified.status.success(), "{verify}: {}", String::from_utf8_lossy(&verified.stderr));
        let reported = in_folder(&site, "sh", &["-c", &command(&page, "openssl pkey ")]);
        assert_contains(&String::from_utf8(reported.stdout).unwrap(), &[document["publicKeySha256"].as_str().unwrap()]);
        let other = if key == "a" { "b.pub" } else { "a.pub" };
        std::fs::copy(site.path(other), folder.join("release.pub")).unwrap();
        assert!(!in_folder(&site, "sh", &["-c", &verify]).status.success(), "another key's signature holds");
        let public = format!("{key}.pub");
        site.run(&["verify", "--key", &public, "folder"]).must(ExitCode::Ok);
    }
}

#[test]
fn sums_that_were_changed_no_longer_have_the_signature() {
    let site = built();
    hand_over(&site, &["--key", "a.key"]).must(ExitCode::Ok);
    let page = std::fs::read_to_string(site.path("folder/README.txt")).unwrap();
    std::fs::copy(site.path("a.pub"), site.path("folder/release.pub")).unwrap();
    let sums = site.path("folder/site.sums");
    let text = std::fs::read_to_string(&sums).unwrap().replacen('a', "b", 1);
    std::fs::write(&sums, text).unwrap();
    assert!(!in_folder(&site, "sh", &["-c", &command(&page, "openssl dgst")]).status.success());
}

#[test]
fn an_invalid_signature_by_the_key_is_replaced_by_a_valid_one() {
    let site = built();
    let id = kubexm_signing::files::public_key(&site.path("a.pub")).unwrap().id().to_string();
    let forged = Signature { key_id: id, alg: "ecdsa-p256-sha256".into(), sig: "AAAA".into(), statement: None };
    Signing::open(&site.path("site.tar.zst")).unwrap().replace(&[forged], &|_, _| {}).unwrap();
    site.run(&["verify", "--key", "a.pub", "site.tar.zst"]).must(ExitCode::BundleUntrusted);
    assert_contains(&hand_over(&site, &["--key", "a.key"]).must(ExitCode::Ok).out, &["signed by key"]);
    site.run(&["verify", "--key", "a.pub", "folder"]).must(ExitCode::Ok);
    assert_eq!(Bundle::open(&site.path("folder")).unwrap().signatures().len(), 1);
}

#[test]
fn a_link_in_place_of_the_temporary_folder_is_not_followed() {
    let site = built();
    site.write("precious/keep", "keep");
    std::os::unix::fs::symlink(site.path("precious"), site.path(".folder.partial")).unwrap();
    assert_contains(&hand_over(&site, &[]).must(ExitCode::Usage).err, &[".folder.partial", "move it away"]);
    assert_eq!(names(&site.path("precious")), ["keep"]);
    assert!(!site.path("folder").exists());
}

#[test]
fn the_readme_of_an_unsigned_folder_says_that_its_sums_are_not_signed() {
    let site = built();
    assert_contains(&hand_over(&site, &[]).must(ExitCode::Ok).out, &["not signed"]);
    sums_hold(&site);
    let page = std::fs::read_to_string(site.path("folder/README.txt")).unwrap();
    assert_contains(&page, &["These sums are not signed"]);
    assert!(!page.contains("openssl") && !page.contains("--key"), "{page}");
    assert!(!names(&site.path("folder")).iter().any(|name| name.ends_with(".sig") || name.ends_with(".pub")));
}

#[test]
fn volumes_are_made_kept_and_signed_and_the_folder_copies_to_a_stick_as_it_is() {
    let site = built();
    hand_over(&site, &["--key", "a.key", "--split", "11M"]).must(ExitCode::Ok);
    sums_hold(&site);
    let volumes = |folder: &str| -> Vec<String> {
        names(&site.path(folder)).into_iter().filter(|name| name.contains(".tar.zst.")).collect()
    };
    assert!(volumes("folder").len() >= 2, "{:?}", volumes("folder"));
    assert_contains(
        &std::fs::read_to_string(site.path("folder/README.txt")).unwrap(),
        &["volumes", "site.tar.zst.001"],
    );
    site.run(&["verify", "--key", "a.pub", "folder"]).must(ExitCode::Ok);
    site.run(&["hand-over", "folder", "second", "--name", "other"]).must(ExitCode::Ok);
    assert_eq!(volumes("second").len(), volumes("folder").len(), "volumes stay volumes");
    site.run(&["verify", "--key", "a.pub", "second"]).must(ExitCode::Ok);

    std::fs::create_dir(site.path("stick")).unwrap();
    site.run(&["copy", "folder", "stick"]).must(ExitCode::Ok);
    assert_eq!(names(&site.path("stick")), names(&site.path("folder")));
    for name in names(&site.path("stick")) {
        assert_eq!(digest(&site.path("stick").join(&name)), digest(&site.path("folder").join(&name)), "{name}");
    }
}

/// A server of a share may answer with a bundle of its own; here another one comes into the place of volumes that are open.
#[test]
fn the_key_signs_the_bundle_that_was_given_and_no_other_that_is_there_when_it_was_written() {
    let site = built();
    hand_over(&site, &["--split", "11M"]).must(ExitCode::Ok);
    site.run(&["hand-over", "out.tar.zst", "other", "--name", "site", "--split", "11M"]).must(ExitCode::Ok);
    let bundle = Bundle::open(&site.path("folder")).unwrap();
    for name in names(&site.path("other")).into_iter().filter(|name| name.contains(".tar.zst.")) {
        std::fs::rename(site.path("other").join(&name), site.path("folder").join(&name)).unwrap();
    }
    let used = |_: &[u8]| -> Result<Signature, (ExitCode, String)> {
        Err((ExitCode::Internal, "the key was used".to_owned()))
    };
    let signer = Signer { key_id: "a".to_owned(), public_pem: String::new(), sign: &used };
    let target = site.path("signed");
    for signer in [Some(&signer), None] {
        let request = HandOver {
            bundle: &bundle,
            folder: &target,
            name: None,
            split: None,
            installers: &[],
            signer,
            signed: SignedAt { date: 0, sequence: None },
            force: false,
            threads: 1,
        };
        let error = kubexm_builder::hand_over::hand_over(&request, &|_| {}).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::BundleDamaged, "{error}");
        assert_contains(&error.to_string(), &["is not the bundle that was written there"]);
        assert!(!target.exists());
    }
}

#[test]
fn a_folder_that_holds_something_is_left_alone_without_force() {
    let site = built();
    site.write("folder/mine.txt", "mine");
    assert_contains(&hand_over(&site, &[]).must(ExitCode::Usage).err, &["not empty", "--force"]);
    assert_eq!(names(&site.path("folder")), ["mine.txt"]);
    hand_over(&site, &["--force", "--key", "a.key", "--split", "11M"]).must(ExitCode::Ok);
    hand_over(&site, &["--force"]).must(ExitCode::Ok);
    assert_eq!(std::fs::read_to_string(site.path("folder/mine.txt")).unwrap(), "mine");
    let left: Vec<_> =
        names(&site.path("folder")).into_iter().filter(|n| n.contains(".sig") || n.contains(".001")).collect();
    assert!(left.is_empty(), "{left:?} is of the hand-over before");
    site.run(&["verify", "folder"]).must(ExitCode::Ok);
    assert_contains(
        &site.run(&["hand-over", "folder", "folder", "--force"]).must(ExitCode::Usage).err,
        &["inputs are never changed"],
    );
}

#[test]
fn what_fails_leaves_no_folder() {
    let site = built();
    let good = std::fs::read(site.path("site.tar.zst")).unwrap();
    let mut bad = good.clone();
    let place = bad.len() / 2;
    bad[place] ^= 1;
    site.write("site.tar.zst", bad);
    assert_contains(&hand_over(&site, &[]).must(ExitCode::BundleDamaged).err, &["blobs/sha256/"]);
    site.write("site.tar.zst", good);
    assert_contains(&hand_over(&site, &["--key", "none.key"]).must(ExitCode::Config).err, &["none.key"]);
    hand_over(&site, &["--name", "a b"]).must(ExitCode::Usage);
    hand_over(&site, &["--split", "1000"]).must(ExitCode::Usage);
    let left: Vec<_> = names(&site.path("")).into_iter().filter(|name| name.contains("folder")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_full_disk_and_a_read_only_one_are_reported_and_no_folder_appears() {
    let site = built();
    let disk = Tmpfs::mount("8m");
    let target = disk.path().join("folder");
    let run = || site.run(&["hand-over", "site.tar.zst", target.to_str().unwrap()]);
    let text = run().must(ExitCode::Disk).err;
    assert_contains(&text, &["iB free", "needs", "free space"]);
    assert!(!text.contains("== write"), "it was begun: {text}");
    assert_eq!(names(disk.path()), Vec::<String>::new());
    disk.make_read_only();
    assert_contains(&run().must(ExitCode::Disk).err, &["Read-only file system"]);
}

/// A hand-over that ends while it writes: the folder under way, as it was left.
fn killed(site: &Site) {
    let partial = site.path(".folder.partial");
    // One that is at its end before anybody looks is begun again.
    for _ in 0..20 {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("kubexm-bundle"));
        command.args(["hand-over", "site.tar.zst", "folder"]).current_dir(site.path(""));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while names(&partial).len() < 2 && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if partial.exists() {
            return;
        }
        std::fs::remove_dir_all(site.path("folder")).unwrap();
    }
    panic!("none was seen while it wrote");
}

#[test]
fn two_writers_of_one_folder_exclude_each_other_and_leftovers_of_a_dead_one_are_used() {
    let site = built();
    killed(&site);
    let other = std::fs::File::open(site.path(".folder.partial")).unwrap();
    other.lock().unwrap();
    hand_over(&site, &[]).must(ExitCode::HostLocked);
    drop(other);
    hand_over(&site, &["--name", "other"]).must(ExitCode::Ok);
    let left: Vec<_> =
        names(&site.path("folder")).into_iter().filter(|n| n.contains("site") || n.starts_with('.')).collect();
    assert!(left.is_empty(), "{left:?} is of the one that was killed");
    assert!(!Path::new(&site.path(".folder.partial")).exists());
}

/// A medium that came back may have such a folder with a link, or a second name, for the mark in it.
#[test]
fn the_mark_of_a_temporary_folder_empties_no_other_file() {
    let site = built();
    site.write("precious", "keep");
    std::fs::create_dir(site.path(".folder.partial")).unwrap();
    let mark = site.path(".folder.partial/.kubexm-hand-over");
    std::os::unix::fs::symlink(site.path("precious"), &mark).unwrap();
    assert_contains(&hand_over(&site, &[]).must(ExitCode::Usage).err, &[".folder.partial", "move it away"]);
    std::fs::remove_file(&mark).unwrap();
    std::fs::hard_link(site.path("precious"), &mark).unwrap();
    assert_contains(&hand_over(&site, &[]).must(ExitCode::Disk).err, &[".kubexm-hand-over", "second name"]);
    assert_eq!(std::fs::read_to_string(site.path("precious")).unwrap(), "keep");
    std::fs::remove_file(&mark).unwrap();
    std::os::unix::fs::symlink(site.path("nothing"), &mark).unwrap();
    hand_over(&site, &[]).must(ExitCode::Usage);
    assert!(!site.path("nothing").exists() && !site.path("folder").exists());
}

#[test]
fn foreign_files_in_the_temporary_folder_are_kept() {
    let site = built();
    site.write(".folder.partial/mine.txt", "mine");
    assert_contains(&hand_over(&site, &[]).must(ExitCode::Usage).err, &[".folder.partial", "move it away"]);
    assert_eq!(std::fs::read_to_string(site.path(".folder.partial/mine.txt")).unwrap(), "mine");
    assert!(!site.path("folder").exists());
}

#[test]
fn a_bundle_that_was_signed_before_says_how_that_is_checked_where_the_sums_are_not_signed() {
    let site = built();
    site.run(&["sign", "--key", "a.key", "site.tar.zst"]).must(ExitCode::Ok);
    hand_over(&site, &[]).must(ExitCode::Ok);
    sums_hold(&site);
    let page = std::fs::read_to_string(site.path("folder/README.txt")).unwrap();
    assert_contains(&page, &["These sums are not signed", "ANOTHER way", "every byte in the bundle"]);
    std::fs::copy(site.path("a.pub"), site.path("folder/release.pub")).unwrap();
    let check = command(&page, "kubexm-bundle verify");
    let check = check.replacen("kubexm-bundle", assert_cmd::cargo::cargo_bin("kubexm-bundle").to_str().unwrap(), 1);
    let checked = in_folder(&site, "sh", &["-c", &check]);
    assert_contains(&String::from_utf8(checked.stdout).unwrap(), &["signature valid"]);
    std::fs::copy(site.path("b.pub"), site.path("folder/release.pub")).unwrap();
    assert!(!in_folder(&site, "sh", &["-c", &check]).status.success(), "another key's signature holds");
}

/// A build of extras whose hand-over cannot be made, and that has an origin which says whether it was asked.
#[test]
fn a_hand_over_that_would_be_refused_is_reported_before_anything_is_fetched() {
    let body = noise(1, 1000);
    let server = crate::server::Server::files(vec![("tool", body.clone())]);
    let site = Site::new();
    site.extras(&format!("extraFiles:\n{}", crate::site::wanted(&server.url("tool"), &body)));
    site.write("full/mine.txt", "mine");
    site.write(".begun.partial/mine.txt", "mine");
    site.write("no-program", "text");
    site.write("a b/x", "");
    let disk = Tmpfs::mount("1m");
    disk.make_read_only();
    let read_only = disk.path().join("folder").to_str().unwrap().to_owned();
    let inside = site.path("inside");
    std::fs::create_dir(&inside).unwrap();
    let refused = |args: &[&str], code: ExitCode, words: &[&str]| {
        let ended = site.run(&[&["build", "-f", "cluster.yaml"], args].concat()).must(code);
        assert_contains(&ended.err, words);
        assert_eq!(server.requests().len(), 0, "{args:?}: something was fetched");
    };
    let out = ["-o", "out.tar.zst", "--hand-over"];
    refused(&[&out[..], &["full"]].concat(), ExitCode::Usage, &["full", "not empty"]);
    refused(&[&out[..], &["begun"]].concat(), ExitCode::Usage, &[".begun.partial", "move it away"]);
    refused(&[&out[..], &["none/folder"]].concat(), ExitCode::Usage, &["the folder none does not exist", "create it"]);
    refused(&[&out[..], &[read_only.as_str()]].concat(), ExitCode::Disk, &["Read-only file system"]);
    refused(&[&out[..], &["new", "--key", "none.key"]].concat(), ExitCode::Config, &["none.key"]);
    let signer = ["new", "--signer", "./none", "--public-key", "none.pub"];
    refused(&[&out[..], &signer].concat(), ExitCode::Config, &["none.pub"]);
    refused(&[&out[..], &["new", "--installer", "no-program"]].concat(), ExitCode::Config, &["no-program"]);
    refused(&["-o", "a b.tar.zst", "--hand-over", "new"], ExitCode::Usage, &["a b", "cannot be used as a file name"]);
    refused(
        &["-o", "inside/out.tar.zst", "--hand-over", "inside"],
        ExitCode::Usage,
        &["inside/out.tar.zst", "name another"],
    );
    site.run(&["keygen", "-o", "a"]).must(ExitCode::Ok);
    let signer = ["new", "--signer", "./none", "--public-key", "a.pub"];
    refused(&[&out[..], &signer].concat(), ExitCode::Config, &["./none", "cannot be started"]);
    assert!(!site.path("new").exists() && !site.path(".new.partial").exists());
    assert_eq!(names(&site.path("full")), ["mine.txt"]);

    // What can be determined only when there is a bundle says where that is, and how to continue.
    let small = Tmpfs::mount("64k");
    let folder = small.path().join("folder");
    site.write("big.bin", noise(2, 300_000));
    site.extras("extraFiles: [{path: big.bin}]");
    let ended =
        site.run(&["build", "-f", "cluster.yaml", "-o", "out.tar.zst", "--hand-over", folder.to_str().unwrap()]);
    assert_contains(
        &ended.must(ExitCode::Disk).err,
        &["iB free", "out.tar.zst is complete", "kubexm-bundle hand-over"],
    );
    site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
}

#[test]
fn a_given_installer_takes_precedence_over_the_bundles_and_a_missing_one_is_named() {
    let site = built();
    let own = program(62).into_iter().chain(*b"own").collect::<Vec<_>>();
    site.write("own", &own);
    hand_over(&site, &["--installer", "own"]).must(ExitCode::Ok);
    assert_eq!(std::fs::read(site.path("folder/kubexm-install-linux-amd64")).unwrap(), own);
    assert_eq!(std::fs::read(site.path("folder/kubexm-install-linux-arm64")).unwrap(), program(183));

    let bundle = Bundle::open(&site.path("site.tar.zst")).unwrap();
    let mut manifest = bundle.manifest().clone();
    manifest.artifacts.retain(|artifact| artifact.key != ArtifactKey::Installer);
    let inputs = manifest.members.iter().map(|m| Input::bytes(m.name.clone(), bundle.read(&m.name, 1 << 30).unwrap()));
    write(&site.path("none.tar.zst"), &manifest, inputs.collect(), &Options::default(), &|_, _| {}).unwrap();
    let text = site.run(&["hand-over", "none.tar.zst", "other"]).must(ExitCode::Config).err;
    assert_contains(&text, &["no kubexm-install for linux/amd64", "--installer FILE"]);
    // Of a delta, the far side has what it leaves out.
    let mut delta = bundle.manifest().clone();
    let installers: Vec<Digest> =
        delta.artifacts.iter().filter(|a| a.key == ArtifactKey::Installer).map(|a| a.digest).collect();
    let is_left_out = |name: &str| installers.iter().any(|digest| kubexm_archive::members::blob_name(digest) == name);
    let read = |m: &Member| Input::bytes(m.name.clone(), bundle.read(&m.name, 1 << 30).unwrap());
    let inputs = delta.members.iter().filter(|m| !is_left_out(&m.name)).map(read).collect();
    let left_out = bundle.layout().members.iter().filter(|stored| is_left_out(&stored.name)).cloned().collect();
    delta.name = "delta".into();
    let contents = Contents {
        manifest: &delta,
        inputs,
        delta: Delta { base: None, left_out },
        signatures: &[],
        groups: Vec::new(),
        sources: None,
    };
    write_contents(&site.path("delta.tar.zst"), contents, &Options::default(), &|_, _| {}).unwrap();
    site.run(&["hand-over", "delta.tar.zst", "delta"]).must(ExitCode::Ok);
    let page = std::fs::read_to_string(site.path("delta/README.txt")).unwrap();
    assert_contains(&page, &["THIS IS A DELTA", "that you have already", "--base EARLIER-BUNDLE"]);
    // A bundle of extras is handed over without one.
    site.run(&["hand-over", "out.tar.zst", "extras"]).must(ExitCode::Ok);
    assert_contains(&std::fs::read_to_string(site.path("extras/README.txt")).unwrap(), &["no cluster"]);
}
