//! Packages that nobody has signed: of a vendor whose keys nobody has they are taken by a lock alone, of one that signs never.

use std::path::{Path, PathBuf};
use std::process::Command;

use kubexm_manifests::os::{Profiles, RootRole};
use kubexm_spec::{ArtifactKey, ExitCode, Lock, Trust};

use crate::cluster::{Lab, SETUP, SPEC, body};
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
        let rule = format!("- {{match: {host}, to: [\"{}/{host}\"], plainHttp: true, only: true}}\n", mirror.address());
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
fn what_nobody_signs_is_taken_by_a_lock_and_by_nothing_else() {
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
