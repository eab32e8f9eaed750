//! Packages that rpmbuild builds and a vendor's key signs, and a signed repository of them in a root.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use kubexm_packages::rpm::file::Rpm as Read;
use kubexm_packages::rpm::publish;
use kubexm_plan::op::{Op, Packages, WantedPackage};
use kubexm_spec::{Digest, Family};
use tempfile::TempDir;

use crate::packages::debs::site;
use crate::packages::private::Root;

pub const REPOSITORY: &str = "/var/lib/kubexm/repos/rocky-9-x86_64";

/// A vendor's key, made by gpg, and where packages are built.
pub struct Vendor {
    folder: TempDir,
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    output.stdout
}

impl Vendor {
    pub fn new() -> Self {
        let vendor = Self::nobody();
        run(vendor.gpg().args(["--quick-gen-key", "vendor", "rsa2048", "default", "never"]));
        vendor
    }

    /// One who signs packages with the key of the site.
    pub fn with_key_of_site() -> Self {
        let vendor = Self::nobody();
        let secret = vendor.folder.path().join("secret.asc");
        std::fs::write(&secret, site().secret().expect("a key").as_bytes()).expect("a file");
        run(vendor.gpg().arg("--import").arg(&secret));
        vendor
    }

    fn nobody() -> Self {
        let vendor = Self { folder: tempfile::tempdir().expect("a folder") };
        std::fs::create_dir(vendor.home()).expect("a home");
        std::fs::set_permissions(vendor.home(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("a mode");
        vendor
    }

    /// The fingerprint of its only key.
    fn name(&self) -> String {
        let listed = run(self.gpg().args(["--list-secret-keys", "--with-colons"]));
        let listed = String::from_utf8(listed).expect("text");
        let line = listed.lines().find(|line| line.starts_with("fpr:")).expect("a fingerprint");
        line.split(':').nth(9).expect("a field").to_owned()
    }

    fn home(&self) -> std::path::PathBuf {
        self.folder.path().join("gnupg")
    }

    fn gpg(&self) -> Command {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(self.home());
        command.args(["--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]);
        command
    }

    fn public(&self) -> Vec<u8> {
        run(self.gpg().args(["--export", "--armor"]))
    }

    /// Builds and signs a package; `spec` has more of its lines, `script` what its `%post` does.
    pub fn build(&self, name: &str, version: &str, spec: &str, install: &str, files: &str) -> Vec<u8> {
        let path = self.folder.path();
        let text = format!(
            "Name: {name}\nVersion: {version}\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n{spec}\n%description\nx\n\
             %install\nmkdir -p %{{buildroot}}\n{install}\n%files\n{files}\n"
        );
        std::fs::write(path.join("package.spec"), text).expect("a spec");
        let top = format!("_topdir {}", path.join("top").display());
        run(Command::new("rpmbuild").args(["-bb", "--quiet", "--define", &top]).arg(path.join("package.spec")));
        let package = path.join(format!("top/RPMS/noarch/{}", file_name(name, version)));
        let home = format!("_gpg_path {}", self.home().display());
        let name = format!("_gpg_name {}", self.name());
        let define = ["--define", name.as_str(), "--define", home.as_str(), "--define", "__gpg /usr/bin/gpg"];
        run(Command::new("rpmsign").args(define).arg("--addsign").arg(&package));
        std::fs::read(package).expect("a package")
    }
}

impl Drop for Vendor {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf").arg("--homedir").arg(self.home()).args(["--kill", "all"]).output();
    }
}

pub fn file_name(name: &str, version: &str) -> String {
    format!("{name}-{version}-1.noarch.rpm")
}

/// A package by name and version, with its bytes.
pub type Built = (&'static str, &'static str, Vec<u8>);

/// As [`crate::packages::debs::op`]; `vendor` is whose key the source file names.
pub fn op(root: &Root, vendor: &Vendor, built: &[Built], wanted: &[&str]) -> Op {
    let read: Vec<Read> = built.iter().map(|(.., bytes)| Read::read(&mut bytes.as_slice()).expect("an rpm")).collect();
    let names: Vec<String> = built.iter().map(|(name, version, _)| file_name(name, version)).collect();
    let items: Vec<publish::Item<'_>> = built
        .iter()
        .zip(read.iter().zip(&names))
        .map(|((.., bytes), (rpm, location))| publish::Item {
            rpm,
            location,
            size: bytes.len() as u64,
            digest: Digest::of(bytes),
        })
        .collect();
    let date = site().created();
    let metadata = publish::metadata(&items, u64::try_from(date).expect("a date")).expect("metadata");
    let at = |name: &str| format!("{REPOSITORY}/{name}");
    for file in &metadata {
        root.put(&at(&file.path), &file.bytes);
    }
    let last = metadata.last().expect("repomd.xml");
    root.put(&at("repodata/repomd.xml.asc"), site().detached(&last.bytes, date).expect("a signature"));
    root.put(&at("kubexm.asc"), site().public().expect("a key"));
    root.put(&at("vendor.asc"), vendor.public());
    let source = format!(
        "[kubexm]\nname=KubeXM\nbaseurl=file://{REPOSITORY}\nenabled=0\ngpgcheck=1\nrepo_gpgcheck=1\n\
         gpgkey=file://{}\nmodule_hotfixes=1\nmetadata_expire=0\nskip_if_unavailable=0\n",
        at("kubexm.asc"),
    );
    root.put(&at("kubexm.repo"), source);
    for (.., bytes) in built {
        root.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", Digest::of(bytes).hex()), bytes);
    }
    std::fs::set_permissions(root.machine.path("/var/lib/kubexm"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("a mode");
    let packages = built.iter().filter(|(name, ..)| wanted.contains(name)).map(|(name, version, bytes)| {
        let package = WantedPackage {
            version: format!("{version}-1"),
            arch: "noarch".into(),
            file: file_name(name, version),
            blob: Digest::of(bytes),
            upgrade: false,
        };
        ((*name).to_owned(), package)
    });
    Packages {
        family: Family::Rpm,
        repository: REPOSITORY.into(),
        source: at("kubexm.repo"),
        packages: packages.collect(),
        replaced: BTreeMap::new(),
    }
    .into()
}

/// Installs a package of a test's own, without our op.
pub fn had(root: &Root, bytes: &[u8]) {
    root.put("/tmp/had.rpm", bytes);
    root.says("rpm", &["--install", "--nosignature", "/tmp/had.rpm"]);
}

/// What is in the repository's folder besides what a plan's files put there.
pub fn left_of_work(root: &Root) -> Vec<String> {
    let folder = root.machine.path(REPOSITORY);
    let names = std::fs::read_dir(Path::new(&folder)).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| !["repodata", "kubexm.asc", "vendor.asc", "kubexm.repo"].contains(&name.as_str()));
    names.sort();
    names
}
