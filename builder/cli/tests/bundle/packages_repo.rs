//! `packages key` and `packages repo`: what they write is installed from by the real apt and dnf, with their checks on, and what was
//! tampered with is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kubexm_packages::trust::{Keyring, Policy, clearsigned, detached};
use kubexm_spec::ExitCode;

use crate::site::{Site, assert_contains, names};

/// A site with a key, made once a test: 2048 bits are made in a second.
fn site() -> Site {
    let site = Site::new();
    site.run(&["packages", "key", "--bits", "2048", "site.key"]).must(ExitCode::Ok);
    site
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    output
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Builds a .deb that depends on others.
fn deb(site: &Site, folder: &str, name: &str, depends: &str) {
    let tree = site.path(&format!("tree-{name}"));
    site.write(
        &format!("tree-{name}/DEBIAN/control"),
        format!(
            "Package: {name}\nVersion: 1.0-1\nArchitecture: all\nMaintainer: me <me@localhost>\n{depends}Description: {name}\n"
        ),
    );
    site.write(&format!("tree-{name}/usr/share/{name}/data"), name);
    std::fs::create_dir_all(site.path(folder)).unwrap();
    let target = site.path(&format!("{folder}/{name}_1.0-1_all.deb"));
    run(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(tree).arg(target));
}

/// apt with a root of its own, and nothing of this machine's.
struct Apt {
    root: PathBuf,
}

impl Apt {
    fn new(site: &Site, source: &str) -> Self {
        let root = site.path("apt");
        for folder in [
            "etc/apt/apt.conf.d",
            "etc/apt/preferences.d",
            "var/lib/apt/lists/partial",
            "var/cache/apt/archives/partial",
        ] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log/apt"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
        std::fs::write(root.join("etc/apt/sources.list"), format!("{source}\n")).unwrap();
        Self { root }
    }

    fn get(&self, args: &[&str]) -> Output {
        let root = self.root.display();
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", "/dev/null").env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
        for option in [
            format!("Dir={root}"),
            format!("Dir::State::status={root}/var/lib/dpkg/status"),
            "APT::Architecture=amd64".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            format!("DPkg::Options::=--root={root}"),
            "DPkg::Options::=--force-script-chrootless".to_owned(),
            format!("DPkg::Options::=--log={root}/dpkg.log"),
        ] {
            command.arg("-o").arg(option);
        }
        command.arg("-y").args(args).output().unwrap()
    }

    /// `update`, which takes a warning for a failure.
    fn update(&self) -> Result<(), String> {
        let output = self.get(&["--error-on=any", "update"]);
        if output.status.success() { Ok(()) } else { Err(text(&output)) }
    }
}

/// The repository of two packages, and the line that apt uses it by.
fn debs(site: &Site) -> String {
    deb(site, "debs", "kubexm-test-one", "Depends: kubexm-test-two (>= 1.0)\n");
    deb(site, "debs", "kubexm-test-two", "");
    published(site, "debs", &[])
}

fn published(site: &Site, folder: &str, more: &[&str]) -> String {
    let mut args = vec!["packages", "repo", folder, "--sign-key", "site.key", "--json"];
    args.extend(more);
    let document = site.run(&args).must(ExitCode::Ok).document();
    assert_eq!(document["schema"], "kubexm.io/packages-repo/v1");
    document["source"].as_str().unwrap().to_owned()
}

fn flip(path: &Path, place: impl FnOnce(&[u8]) -> usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let place = place(&bytes);
    bytes[place] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn find(bytes: &[u8], what: &str) -> usize {
    bytes.windows(what.len()).position(|window| window == what.as_bytes()).unwrap()
}

#[test]
fn apt_installs_from_what_was_published_with_its_checks_on() {
    let site = site();
    let source = debs(&site);
    assert_contains(&source, &["[signed-by=", "/debs/kubexm.gpg]", " ./"]);
    let apt = Apt::new(&site, &source);
    apt.update().unwrap();
    let output = apt.get(&["install", "--no-install-recommends", "kubexm-test-one"]);
    assert!(output.status.success(), "{}", text(&output));
    for name in ["one", "two"] {
        let data = site.path(&format!("apt/usr/share/kubexm-test-{name}/data"));
        assert_eq!(std::fs::read_to_string(data).unwrap(), format!("kubexm-test-{name}"));
    }

    // A package more, and the same command again.
    deb(&site, "debs", "kubexm-test-three", "");
    assert_eq!(published(&site, "debs", &[]), source);
    apt.update().unwrap();
    assert!(apt.get(&["install", "kubexm-test-three"]).status.success());
}

#[test]
fn apt_and_we_refuse_what_was_changed_or_signed_by_another() {
    let site = site();
    let source = debs(&site);
    let keys = Keyring::read(&std::fs::read(site.path("debs/kubexm.asc")).unwrap()).unwrap();
    let later = Policy::at(i64::from(u32::MAX));
    let in_release = site.path("debs/InRelease");
    let good = std::fs::read(&in_release).unwrap();
    let (release, signer) = clearsigned(&good, &keys, &later).unwrap();
    assert_eq!(release.as_bytes(), std::fs::read(site.path("debs/Release")).unwrap());
    assert_eq!(keys.fingerprints(), [signer.fingerprint]);
    detached(release.as_bytes(), &std::fs::read(site.path("debs/Release.gpg")).unwrap(), &keys, &later).unwrap();

    flip(&in_release, |bytes| find(bytes, "Suite: ") + 7);
    assert!(clearsigned(&std::fs::read(&in_release).unwrap(), &keys, &later).is_err());
    assert_contains(&Apt::new(&site, &source).update().unwrap_err(), &["invalid"]);
    std::fs::write(&in_release, &good).unwrap();

    // The index: what Release says of it no longer holds.
    for name in ["Packages", "Packages.gz"] {
        flip(&site.path("debs").join(name), |bytes| bytes.len() / 2);
    }
    std::fs::remove_dir_all(site.path("apt")).unwrap();
    let refused = Apt::new(&site, &source).update().unwrap_err();
    assert!(refused.contains("Hash Sum mismatch") || refused.contains("unexpected size"), "{refused}");
    assert_eq!(published(&site, "debs", &[]), source);

    // Another's key.
    site.run(&["packages", "key", "--bits", "2048", "other.key"]).must(ExitCode::Ok);
    let other = source.replace(
        &site.path("debs/kubexm.gpg").display().to_string(),
        &site.path("other.key.pub").display().to_string(),
    );
    let other = other.replace("other.key.pub", "other.asc");
    std::fs::copy(site.path("other.key.pub"), site.path("other.asc")).unwrap();
    std::fs::remove_dir_all(site.path("apt")).unwrap();
    assert_contains(&Apt::new(&site, &other).update().unwrap_err(), &["NO_PUBKEY"]);

    // A package.
    std::fs::remove_dir_all(site.path("apt")).unwrap();
    let apt = Apt::new(&site, &source);
    apt.update().unwrap();
    flip(&site.path("debs/kubexm-test-two_1.0-1_all.deb"), |bytes| bytes.len() - 1);
    let output = apt.get(&["install", "kubexm-test-one"]);
    assert!(!output.status.success() && text(&output).contains("Hash Sum mismatch"), "{}", text(&output));
}

#[test]
fn the_same_packages_key_and_date_give_the_same_bytes() {
    let site = site();
    debs(&site);
    let date = ("SOURCE_DATE_EPOCH", "1700000000");
    let make = |folder: &str| {
        let mut program = site.program();
        program.args(["packages", "repo", folder, "--from", "debs", "--sign-key", "site.key"]).env(date.0, date.1);
        program.assert().success();
        let files = names(&site.path(folder));
        files
            .iter()
            .map(|name| (name.clone(), std::fs::read(site.path(folder).join(name)).unwrap()))
            .collect::<Vec<_>>()
    };
    let (one, two) = (make("one"), make("two"));
    assert!(one == two, "{:?}", names(&site.path("one")));
    assert_eq!(
        names(&site.path("one")),
        [
            "InRelease",
            "Packages",
            "Packages.gz",
            "Release",
            "Release.gpg",
            "kubexm-test-one_1.0-1_all.deb",
            "kubexm-test-two_1.0-1_all.deb",
            "kubexm.asc",
            "kubexm.gpg"
        ]
    );
    assert_contains(&String::from_utf8(one[3].1.clone()).unwrap(), &["Date: Tue, 14 Nov 2023 22:13:20 UTC"]);
}

/// A key of gpg, in a folder of its own; its public part is `vendor.pub` of the site.
fn vendor(site: &Site) -> String {
    let home = site.path("gnupg");
    std::fs::create_dir(&home).unwrap();
    std::fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let gpg = |args: &[&str]| {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(&home).args([
            "--batch",
            "--quiet",
            "--pinentry-mode",
            "loopback",
            "--passphrase",
            "",
        ]);
        run(command.args(args)).stdout
    };
    gpg(&["--quick-gen-key", "vendor", "rsa2048", "default", "never"]);
    site.write("vendor.pub", gpg(&["--export", "--armor"]));
    home.display().to_string()
}

/// Builds an .rpm and signs it with the key of a home of gpg.
fn rpm(site: &Site, folder: &str, name: &str, requires: &str, home: &str) {
    let spec = site.write(
        &format!("{name}.spec"),
        format!(
            "Name: {name}\nVersion: 1\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n{requires}%description\nx\n%install\n\
             mkdir -p %{{buildroot}}/opt/{name}\necho {name} > %{{buildroot}}/opt/{name}/data\n%files\n/opt/{name}\n"
        ),
    );
    let top = format!("_topdir {}", site.path("top").display());
    run(Command::new("rpmbuild").args(["-bb", "--quiet", "--define", &top]).arg(spec));
    std::fs::create_dir_all(site.path(folder)).unwrap();
    let package = site.path(&format!("{folder}/{name}-1-1.noarch.rpm"));
    std::fs::rename(site.path(&format!("top/RPMS/noarch/{name}-1-1.noarch.rpm")), &package).unwrap();
    let mut sign = Command::new("rpmsign");
    sign.args([
        "--define",
        "_gpg_name vendor",
        "--define",
        &format!("_gpg_path {home}"),
        "--define",
        "__gpg /usr/bin/gpg",
    ]);
    run(sign.args(["--addsign"]).arg(package));
    let _ = Command::new("gpgconf").args(["--homedir", home, "--kill", "all"]).output();
}

/// dnf in a root of its own, with our repository only, and with the vendor's key as well.
fn dnf(site: &Site, source: &str, args: &[&str]) -> Output {
    let keys = format!("{}\n", source.lines().find(|line| line.starts_with("gpgkey=")).unwrap());
    let more =
        format!("gpgkey={} file://{}\n", keys.trim().trim_start_matches("gpgkey="), site.path("vendor.pub").display());
    dnf_as_reported(site, &source.replace(keys.trim_end(), more.trim_end()), args)
}

/// The same with what was printed.
fn dnf_as_reported(site: &Site, source: &str, args: &[&str]) -> Output {
    let root = site.path("root");
    let _ = std::fs::remove_dir_all(&root);
    site.write("repos/kubexm.repo", source);
    site.write("dnf.conf", "[main]\n");
    let mut command = Command::new("dnf");
    command.env("LC_ALL", "C.UTF-8").arg("--config").arg(site.path("dnf.conf")).arg("--installroot").arg(&root);
    for option in [
        format!("reposdir={}", site.path("repos").display()),
        format!("cachedir={}", site.path("root/cache").display()),
        format!("logdir={}", site.path("root").display()),
        format!("persistdir={}", site.path("root/persist").display()),
        "install_weak_deps=False".to_owned(),
        "plugins=False".to_owned(),
    ] {
        command.arg(format!("--setopt={option}"));
    }
    command.args(["--releasever=9", "--assumeyes"]).args(args).output().unwrap()
}

#[test]
fn dnf_installs_from_what_was_published_with_its_checks_on_and_refuses_what_was_changed() {
    let site = site();
    let home = vendor(&site);
    rpm(&site, "rpms", "kubexm-test-one", "Requires: kubexm-test-two\n", &home);
    rpm(&site, "rpms", "kubexm-test-two", "", &home);
    let source = published(&site, "rpms", &[]);
    assert_contains(&source, &["repo_gpgcheck=1", "gpgcheck=1", "/rpms/kubexm.asc"]);
    let output = dnf(&site, &source, &["install", "kubexm-test-one"]);
    assert!(output.status.success(), "{}", text(&output));
    let data = std::fs::read_to_string(site.path("root/opt/kubexm-test-two/data")).unwrap();
    assert_eq!(data, "kubexm-test-two\n");

    // Again after a package went: what listed it is gone, too.
    let before = names(&site.path("rpms/repodata"));
    std::fs::rename(site.path("rpms/kubexm-test-one-1-1.noarch.rpm"), site.path("one.rpm")).unwrap();
    assert_eq!(published(&site, "rpms", &[]), source);
    let after = names(&site.path("rpms/repodata"));
    assert!(before.len() == after.len() && before != after, "{before:?} {after:?}");

    // The metadata.
    let repomd = site.path("rpms/repodata/repomd.xml");
    flip(&repomd, |bytes| find(bytes, "<revision>") + 10);
    let keys = Keyring::read(&std::fs::read(site.path("rpms/kubexm.asc")).unwrap()).unwrap();
    let signature = std::fs::read(site.path("rpms/repodata/repomd.xml.asc")).unwrap();
    let later = Policy::at(i64::from(u32::MAX));
    assert!(detached(&std::fs::read(&repomd).unwrap(), &signature, &keys, &later).is_err());
    let output = dnf(&site, &source, &["install", "kubexm-test-two"]);
    assert!(!output.status.success() && text(&output).contains("GPG"), "{}", text(&output));
    published(&site, "rpms", &[]);

    // A package.
    flip(&site.path("rpms/kubexm-test-two-1-1.noarch.rpm"), |bytes| bytes.len() - 1);
    let output = dnf(&site, &source, &["install", "kubexm-test-two"]);
    assert!(!output.status.success(), "{}", text(&output));
    let refused = site.run(&["packages", "repo", "rpms", "--sign-key", "site.key"]).must(ExitCode::OriginMismatch).err;
    assert_contains(&refused, &["kubexm-test-two-1-1.noarch.rpm", "payload"]);

    // Another's signature, which gpgcheck sees though the metadata is ours.
    std::fs::rename(site.path("gnupg"), site.path("gnupg-vendor")).unwrap();
    std::fs::rename(site.path("vendor.pub"), site.path("first.pub")).unwrap();
    let other = vendor(&site);
    std::fs::rename(site.path("first.pub"), site.path("vendor.pub")).unwrap();
    rpm(&site, "rpms", "kubexm-test-two", "", &other);
    published(&site, "rpms", &[]);
    let output = dnf(&site, &source, &["install", "kubexm-test-two"]);
    assert!(!output.status.success() && text(&output).contains("GPG"), "{}", text(&output));
    assert!(!site.path("root/opt/kubexm-test-two").exists());
}

#[test]
fn packages_of_an_operating_system_are_refused_where_its_vendor_has_not_signed_them() {
    let site = site();
    let home = vendor(&site);
    rpm(&site, "rpms", "kubexm-test-one", "", &home);
    let args = |os| ["packages", "repo", "rpms", "--sign-key", "site.key", "--os", os];
    let text = site.run(&args("rocky-9")).must(ExitCode::OriginMismatch).err;
    assert_contains(
        &text,
        &["kubexm-test-one-1-1.noarch.rpm", "is signed by", "21CB256AE16FC54C6E652949702D426D350D275D"],
    );
    assert!(!site.path("rpms/repodata").exists());
    assert_contains(&site.run(&args("debian-12")).must(ExitCode::Usage).err, &["another family"]);
    assert_contains(&site.run(&args("rocky9")).must(ExitCode::UnknownVersion).err, &["rocky-9"]);
    assert_contains(
        &site.run(&args("kylin-v10-sp2")).must(ExitCode::Config).err,
        &["the keys that sign packages of", "are not known"],
    );
}

#[test]
fn own_packages_are_verified_with_a_named_key_and_reported_as_unverified_without() {
    let site = site();
    let home = vendor(&site);
    rpm(&site, "rpms", "kubexm-test-one", "", &home);
    let document =
        site.run(&["packages", "repo", "rpms", "--sign-key", "site.key", "--json"]).must(ExitCode::Ok).document();
    assert_contains(&document["notes"].to_string(), &["kubexm-test-one-1-1.noarch.rpm", "gpgcheck=1", "--key"]);
    let text = site.run(&["packages", "repo", "rpms", "--sign-key", "site.key"]).must(ExitCode::Ok).err;
    assert_contains(&text, &["kubexm-test-one-1-1.noarch.rpm", "dnf refuses it"]);

    let source = published(&site, "rpms", &["--key", "vendor.pub"]);
    assert_contains(&source, &["/rpms/vendor.asc"]);
    let output = dnf_as_reported(&site, &source, &["install", "kubexm-test-one"]);
    assert!(output.status.success(), "{}", self::text(&output));
    let args = ["packages", "repo", "rpms", "--sign-key", "site.key", "--key", "site.key.pub"];
    assert_contains(
        &site.run(&args).must(ExitCode::OriginMismatch).err,
        &["kubexm-test-one-1-1.noarch.rpm", "is signed by"],
    );
}

#[test]
fn a_damaged_or_duplicate_package_in_a_folder_is_refused_by_name() {
    let site = site();
    let refused = |folder: &str, words: &[&str]| {
        let text = site.run(&["packages", "repo", folder, "--sign-key", "site.key"]).must(ExitCode::OriginMismatch).err;
        assert_contains(&text, words);
        assert!(!site.path(folder).join("InRelease").exists());
    };
    deb(&site, "cut", "kubexm-test-one", "");
    let path = site.path("cut/kubexm-test-one_1.0-1_all.deb");
    let bytes = std::fs::read(&path).unwrap();
    let data = find(&bytes, "data.tar");
    for length in [data, data + 30, data + 60, bytes.len() - 2] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        refused("cut", &["kubexm-test-one_1.0-1_all.deb", "like a truncated copy"]);
    }
    deb(&site, "twins", "kubexm-test-one", "");
    std::fs::rename(site.path("twins/kubexm-test-one_1.0-1_all.deb"), site.path("twins/a.deb")).unwrap();
    deb(&site, "twins", "kubexm-test-one", "Depends: dpkg\n");
    refused("twins", &["a.deb", "both kubexm-test-one 1.0-1 all", "keep the right one"]);
    std::fs::create_dir(site.path("link")).unwrap();
    std::os::unix::fs::symlink("/nowhere", site.path("link/x.deb")).unwrap();
    refused("link", &["x.deb", "dangling link"]);

    deb(&site, "a place", "kubexm-test-one", "");
    let run = site.run(&["packages", "repo", "a place", "--sign-key", "site.key", "--json"]).must(ExitCode::Ok);
    let document = run.document();
    assert!(document["source"].is_null(), "{document}");
    assert_contains(&document["notes"].to_string(), &["a place", "move it"]);
    let missing = site.run(&["packages", "repo", "nowhere", "--sign-key", "site.key"]);
    assert_contains(&missing.must(ExitCode::Usage).err, &["nowhere"]);
}

#[test]
fn what_cannot_be_a_repository_is_refused_before_anything_is_written() {
    let site = site();
    std::fs::create_dir(site.path("empty")).unwrap();
    let repo = |folder: &str, key: &str| site.run(&["packages", "repo", folder, "--sign-key", key]);
    assert_contains(&repo("empty", "site.key").must(ExitCode::Usage).err, &["holds no .deb and no .rpm", "--from"]);
    site.write("mixed/a.deb", "");
    site.write("mixed/b.rpm", "");
    assert_contains(&repo("mixed", "site.key").must(ExitCode::Usage).err, &["a folder for each"]);
    site.write("broken/a.deb", "!<arch>\nno");
    assert_contains(&repo("broken", "site.key").must(ExitCode::OriginMismatch).err, &["a.deb"]);
    assert_contains(
        &repo("empty", "site.key.pub").must(ExitCode::Config).err,
        &["site.key.pub", "not an OpenPGP secret key"],
    );
    assert_contains(&repo("empty", "none.key").must(ExitCode::Config).err, &["none.key"]);
    assert_eq!(names(&site.path("empty")), Vec::<String>::new());
    assert_eq!(names(&site.path("mixed")), ["a.deb", "b.rpm"]);

    // The key is its owner's alone, and is never replaced.
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(site.path("site.key")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert_contains(&site.run(&["packages", "key", "site.key"]).must(ExitCode::Usage).err, &["keys are not replaced"]);
}
