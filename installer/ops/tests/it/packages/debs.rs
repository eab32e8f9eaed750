//! Packages that dpkg-deb builds, and a signed repository of them in a root.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use kubexm_packages::deb::{archive, publish};
use kubexm_packages::trust::SiteKey;
use kubexm_plan::op::{Op, Packages, WantedPackage};
use kubexm_spec::{Digest, Family};

use crate::packages::private::Root;

pub const REPOSITORY: &str = "/var/lib/kubexm/repos/debian-12-amd64";

/// One key for all tests: it takes a second to make.
pub fn site() -> &'static SiteKey {
    static SITE: OnceLock<SiteKey> = OnceLock::new();
    SITE.get_or_init(|| SiteKey::generate("KubeXM site <kubexm@localhost>", 2048).expect("a key"))
}

/// A package that is to be built.
#[derive(Clone, Default)]
pub struct Deb {
    pub name: &'static str,
    pub version: &'static str,
    /// Of this machine, unless said otherwise.
    pub arch: Option<&'static str>,
    /// More lines of its control file.
    pub control: &'static str,
    /// Files by absolute path.
    pub files: Vec<(&'static str, &'static str)>,
    /// `postinst`, `prerm`…
    pub scripts: Vec<(&'static str, &'static str)>,
}

impl Deb {
    pub fn new(name: &'static str, version: &'static str) -> Self {
        Self { name, version, ..Self::default() }
    }

    pub fn of(mut self, arch: &'static str) -> Self {
        self.arch = Some(arch);
        self
    }

    pub fn control(mut self, lines: &'static str) -> Self {
        self.control = lines;
        self
    }

    pub fn file(mut self, path: &'static str, text: &'static str) -> Self {
        self.files.push((path, text));
        self
    }

    pub fn script(mut self, name: &'static str, text: &'static str) -> Self {
        self.scripts.push((name, text));
        self
    }

    pub fn file_name(&self) -> String {
        format!("{}_{}_amd64.deb", self.name, self.version.replace(':', "%3a"))
    }

    pub fn build(&self) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        let put = |path: &str, text: &str, mode: u32| {
            let path = tree.join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(&path, text).expect("a file");
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("a mode");
        };
        let (name, version, control) = (self.name, self.version, self.control);
        let arch = self.arch.unwrap_or("amd64");
        let text = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {arch}\nMaintainer: me <me@localhost>\n{control}Description: {name}\n"
        );
        put("DEBIAN/control", &text, 0o644);
        let etc: String = self
            .files
            .iter()
            .filter(|(path, _)| path.starts_with("/etc/"))
            .map(|(path, _)| format!("{path}\n"))
            .collect();
        if !etc.is_empty() {
            put("DEBIAN/conffiles", &etc, 0o644);
        }
        self.files.iter().for_each(|(path, text)| put(path, text, 0o755));
        self.scripts
            .iter()
            .for_each(|(name, text)| put(&format!("DEBIAN/{name}"), &format!("#!/bin/sh\nset -e\n{text}\n"), 0o755));
        let target = folder.path().join("package.deb");
        let output = Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Znone", "--build"])
            .args([&tree, &target])
            // The same bytes each time.
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .output()
            .expect("dpkg-deb");
        assert!(output.status.success(), "{output:?}");
        std::fs::read(target).expect("a package")
    }
}

/// Puts packages into the root's store and a signed repository around them, as the files of a plan would; the op wants those of
/// `wanted`, in the place of those of `replaced`.
pub fn op(root: &Root, debs: &[Deb], wanted: &[&str], replaced: &[&str]) -> Op {
    op_dated(root, debs, wanted, replaced, site().created())
}

/// The same, of another day.
pub fn op_dated(root: &Root, debs: &[Deb], wanted: &[&str], replaced: &[&str], date: i64) -> Op {
    let built: Vec<(&Deb, Vec<u8>)> = debs.iter().map(|deb| (deb, deb.build())).collect();
    for (_, bytes) in &built {
        root.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", Digest::of(bytes).hex()), bytes);
    }
    let entries: Vec<publish::Entry> = built
        .iter()
        .map(|(deb, bytes)| publish::Entry {
            control: archive::control(bytes.as_slice()).expect("a control file"),
            file_name: deb.file_name(),
            size: bytes.len() as u64,
            digest: Digest::of(bytes),
        })
        .collect();
    let index = publish::packages(&entries).expect("an index");
    let about =
        publish::About { origin: "KubeXM".into(), suite: "kubexm".into(), architectures: vec!["amd64".into()], date };
    let release = publish::release(&about, &[("Packages", index.as_bytes())]);
    let at = |name: &str| format!("{REPOSITORY}/{name}");
    root.put(&at("Packages"), index);
    root.put(&at("InRelease"), site().clearsigned(&release, date).expect("a signature"));
    root.put(&at("kubexm.asc"), site().public().expect("a key"));
    root.put(&at("kubexm.list"), format!("deb [signed-by={}] file:{REPOSITORY} ./\n", at("kubexm.asc")));
    std::fs::set_permissions(root.machine.path("/var/lib/kubexm"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("a mode");
    let package = |(deb, bytes): &(&Deb, Vec<u8>)| WantedPackage {
        version: deb.version.into(),
        arch: "amd64".into(),
        file: deb.file_name(),
        blob: Digest::of(bytes),
        upgrade: false,
    };
    let chosen = |names: &[&str]| -> BTreeMap<String, WantedPackage> {
        built
            .iter()
            .filter(|(deb, _)| names.contains(&deb.name))
            .map(|one| (one.0.name.to_owned(), package(one)))
            .collect()
    };
    Packages {
        family: Family::Deb,
        repository: REPOSITORY.into(),
        source: at("kubexm.list"),
        packages: chosen(wanted),
        replaced: chosen(replaced),
    }
    .into()
}

/// Whether a folder of the root is there and has nothing in it but what a plan's files put there.
pub fn left_of_work(root: &Root) -> Vec<String> {
    let folder = root.machine.path(REPOSITORY);
    let names = std::fs::read_dir(Path::new(&folder)).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| !["Packages", "InRelease", "kubexm.asc", "kubexm.list"].contains(&name.as_str()));
    names.sort();
    names
}

/// Changes a byte of a file of the repository, or of a package in the store.
pub fn tampered(root: &Root, what: &str, debs: &[Deb]) {
    let package = debs.iter().find(|deb| deb.file_name() == what);
    let path = match package {
        Some(deb) => format!("/var/lib/kubexm/store/blobs/sha256/{}", Digest::of(deb.build()).hex()),
        None => format!("{REPOSITORY}/{what}"),
    };
    let real = root.machine.path(path);
    let mut bytes = std::fs::read(&real).expect("bytes");
    let place = match what {
        "InRelease" => bytes.windows(6).position(|window| window == b"KubeXM").expect("a place"),
        _ => bytes.len() / 2,
    };
    bytes[place] ^= 1;
    std::fs::write(real, bytes).expect("written");
}
