//! Packages that nobody has signed: of a vendor whose keys nobody has they are taken by a lock alone, of one that signs never.

use std::path::{Path, PathBuf};
use std::process::Command;

use kubexm_manifests::os::{Profiles, RootRole};
use kubexm_spec::{ArtifactKey, ExitCode, Lock, Trust};

use crate::cluster::{Lab, SETUP, SPEC, body};
use crate::packages::{Mirrors, Served, rpm};
use crate::packages_entitled::{Answer, host};
use crate::server::{Reply, Server, file};
use crate::site::{Ended, assert_contains};

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A repository of empty packages under the names that nodes of a release need, unsigned.
pub fn repository(folder: &Path, os: &str) {
    let profiles = Profiles::embedded();
    let names = profiles.get(os).unwrap().root_names(&profiles.roots, &[RootRole::Node]);
    assert!(names.len() > 5, "{names:?}");
    let mut spec =
        "Name: roots\nVersion: 1\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n%description\nx\n".to_owned();
    for name in &names {
        spec += &format!("%package -n {name}\nSummary: x\n%description -n {name}\nx\n%files -n {name}\n");
    }
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("roots.spec"), spec).unwrap();
    let top = format!("_topdir {}", folder.join("top").display());
    run(Command::new("rpmbuild").args(["-bb", "--quiet", "--define", &top]).arg(folder.join("roots.spec")));
    std::fs::rename(folder.join("top/RPMS/noarch"), folder.join("repo")).unwrap();
    run(Command::new("createrepo_c").arg("--quiet").arg(folder.join("repo")));
}

/// A cluster of hosts of one release, whose vendor's mirror is ours.
struct Site {
    lab: Lab,
    mirror: Server,
}

impl Site {
    fn new(os: &str, host: &str) -> Self {
        Self::of(os, host, ", trustUnsigned: true")
    }

    fn of(os: &str, host: &str, more: &str) -> Self {
        let spec = SPEC.replace("exclude: [helm]", &format!("os: [{os}], exclude: [helm]"));
        let lab = Lab::of(&spec, body);
        let folder = lab.site.path("made-rpms");
        repository(&folder, os);
        let repo = folder.join("repo");
        let mirror = Server::start(move |request| match read(&repo, &request.path) {
            Some(body) => file(request, &body),
            None => Reply::new(404, "no such file"),
        });
        let zone = lab.site.path("zone.yaml");
        let text = std::fs::read_to_string(&zone).unwrap();
        let rule =
            format!("- {{match: {host}, to: [\"{}/{host}\"], plainHttp: true, only: true{more}}}\n", mirror.address());
        std::fs::write(zone, format!("{text}{rule}")).unwrap();
        Self { lab, mirror }
    }

    fn lock(&self) -> Lock {
        self.lab.site.run(&[&["lock", "-f", "cluster.yaml"], &SETUP[..]].concat()).must(ExitCode::Ok);
        Lock::parse(&std::fs::read(self.lab.site.path("cluster.lock.json")).unwrap()).unwrap()
    }

    fn build(&self, more: &[&str]) -> Ended {
        self.lab.site.build(&[&SETUP[..], more].concat())
    }
}

/// All repositories of a release are the same one: below the architecture, and Rocky's `os`.
fn read(repo: &Path, path: &str) -> Option<Vec<u8>> {
    let (_, below) = path.split_once("/x86_64/")?;
    let at: PathBuf = repo.join(below.strip_prefix("os/").unwrap_or(below));
    std::fs::read(at).ok()
}

fn trusts(lock: &Lock) -> Vec<Trust> {
    let of = |item: &&kubexm_spec::lock::LockItem| matches!(item.key, ArtifactKey::Package { .. });
    lock.items.iter().filter(of).map(|item| item.trust).collect()
}

#[test]
fn unsigned_packages_are_accepted_only_by_their_locked_digest() {
    let site = Site::new("kylin-v10-sp3", "update.cs2c.com.cn");
    let refused = site.build(&[]).must(ExitCode::OriginMismatch);
    assert_contains(&refused.err, &["no signature covers package/kylin-v10-sp3/", "kubexm-bundle lock", "--locked"]);
    assert!(!site.mirror.requests().iter().any(|one| one.path.ends_with(".rpm")), "it was fetched all the same");
    let lock = site.lock();
    assert!(trusts(&lock).iter().all(|trust| *trust == Trust::PinnedSha256), "{:?}", trusts(&lock));
    assert!(lock.packages[0].indexes.iter().all(|index| !index.signed));
    site.build(&["--locked"]).must(ExitCode::Ok);
    site.lab.site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
    let sbom = site.lab.site.run(&["sbom", "out.tar.zst", "--format", "spdx"]).must(ExitCode::Ok);
    assert_contains(&sbom.out, &["pkg:rpm/kylin/socat@1-1?arch=noarch&distro=kylin-v10-sp3"]);
}

#[test]
fn unsigned_metadata_over_plain_http_is_locked_only_with_trust_that_lock_and_inspect_show() {
    let site = Site::of("kylin-v10-sp3", "update.cs2c.com.cn", "");
    let lock = || site.lab.site.run(&[&["lock", "-f", "cluster.yaml"], &SETUP[..]].concat());
    let refused = lock().must(ExitCode::OriginMismatch);
    assert_contains(
        &refused.err,
        &["repository base", "repomd.xml is not signed", "plain http", "trustUnsigned: true"],
    );
    assert!(site.mirror.requests().is_empty(), "it was asked all the same");

    let zone = site.lab.site.path("zone.yaml");
    let text =
        std::fs::read_to_string(&zone).unwrap().replace("plainHttp: true,", "plainHttp: true, trustUnsigned: true,");
    std::fs::write(&zone, text).unwrap();
    assert!(site.lock().packages[0].indexes.iter().all(|index| index.trust_unsigned));
    let shown = site.lab.site.run(&["zone", "show", "--zone", "zone.yaml"]).must(ExitCode::Ok);
    assert_contains(&shown.out, &["unsigned metadata of packages trusted"]);
    site.build(&["--locked"]).must(ExitCode::Ok);
    let shown = site.lab.site.run(&["inspect", "out.tar.zst"]).must(ExitCode::Ok);
    assert_contains(&shown.out, &["trusted   base of kylin-v10-sp3 linux/amd64", "over plain http", "nobody signed"]);
    let document = site.lab.site.run(&["inspect", "out.tar.zst", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["trustUnsigned"][0]["repository"], "base", "{document}");
}

/// The repositories of Rocky 9 with one package, as files of a mirror.
fn rocky() -> Mirrors {
    let mut mirrors = Mirrors::new();
    mirrors.rocky("pub/rocky/9/BaseOS/x86_64/os", 1, &rpm("app", ""), "");
    mirrors.rocky("pub/rocky/9/AppStream/x86_64/os", 0, "", "");
    mirrors.rocky("pub/rocky/9/extras/x86_64/os", 0, "", "");
    mirrors
}

#[test]
fn unsigned_metadata_is_accepted_from_a_plain_http_mirror_only_with_trust() {
    let Served { site, server } = rocky().serve();
    let mirror = format!("http://{}", server.address());
    let resolve = ["packages", "resolve", "app", "--os", "rocky-9", "--mirror", &mirror];
    let refused = site.run(&resolve).must(ExitCode::OriginMismatch);
    assert_contains(&refused.err, &["baseos", "repomd.xml is not signed", "--trust-unsigned"]);
    assert!(server.requests().is_empty());
    let trusted = site.run(&[&resolve[..], &["--trust-unsigned"]].concat()).must(ExitCode::Ok);
    assert_contains(&trusted.out, &["app 1-1.el9 x86_64"]);
    assert_contains(&trusted.err, &["baseos", "over plain http"]);
    // What was accepted with trust is not remembered as good without it.
    site.run(&resolve).must(ExitCode::OriginMismatch);
    site.run(&[&resolve[..], &["--offline"]].concat()).must(ExitCode::NotCached);
}

#[test]
fn unsigned_metadata_is_accepted_over_https_and_not_when_that_redirects_to_plain_http() {
    for moved in [false, true] {
        let Mirrors { site, files, .. } = rocky();
        let served = files.clone();
        let plain = Server::start(move |request| match served.get(&request.path) {
            Some(body) => file(request, body),
            None => Reply::new(404, "no such file"),
        });
        let to = plain.address().to_owned();
        let address = host(&site, false, move |path| match moved {
            true => Some(Answer::Moved(format!("http://{to}/{path}"))),
            false => files.get(path).cloned().map(Answer::File),
        });
        let rule = "caFile: ca.pem, only: true, trustUnsigned: true";
        site.write(
            "zone.yaml",
            format!("name: x\nrules:\n- {{match: dl.rockylinux.org, to: [\"https://{address}\"], {rule}}}\n"),
        );
        let ended = site.run(&["packages", "resolve", "app", "--os", "rocky-9", "--zone", "zone.yaml"]);
        match moved {
            true => assert_contains(&ended.must(ExitCode::OriginDown).err, &["baseos", "repomd.xml"]),
            false => assert_contains(&ended.must(ExitCode::Ok).out, &["app 1-1.el9 x86_64"]),
        }
        assert!(plain.requests().is_empty());
    }
}

#[test]
fn a_package_that_its_vendor_should_have_signed_and_has_not_is_never_packed() {
    let site = Site::new("rocky-9", "dl.rockylinux.org");
    let lock = site.lock();
    assert!(trusts(&lock).iter().all(|trust| *trust == Trust::Gpg), "{:?}", trusts(&lock));
    for more in [&["--locked"][..], &[]] {
        let refused = site.build(more).must(ExitCode::OriginMismatch);
        assert_contains(&refused.err, &["package/rocky-9/socat linux/amd64", "no signature"]);
        assert!(!site.lab.site.path("out.tar.zst").exists());
    }
    // Nor does it help to say so in the lock: who signs is the profile's to say.
    let path = site.lab.site.path("cluster.lock.json");
    let text = std::fs::read_to_string(&path).unwrap().replace("\"gpg\"", "\"pinned-sha256\"");
    std::fs::write(path, text).unwrap();
    let refused = site.build(&["--locked"]).must(ExitCode::LockDrift);
    assert_contains(&refused.err, &["trust: the lock has pinned-sha256, the repository gives gpg"]);
}
