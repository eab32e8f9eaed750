//! apt with a root, lists and configuration of its own, on which nothing is installed.
//!
//! It takes a second for each answer, and the question is the same until somebody makes a new snapshot: what it said is kept in
//! the lab, under a digest of all that it said it of.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kubexm_manifests::os::Profiles;
use kubexm_spec::{Arch, Digest};

use crate::apt_referee::mirror::{Mirror, snapshot};
use crate::apt_referee::sets::Distribution;

/// How sets are asked for.
const INSTALL: [&str; 5] = ["-qq", "--print-uris", "--yes", "--no-install-recommends", "install"];
/// In place of the folder of a root, and of the mirror's address.
const ROOT: &str = "@root@";
const MIRROR: &str = "@mirror@";

pub struct Apt {
    mirror: String,
    conf: String,
    sources: String,
    keys: String,
    /// Of all that an answer is about but the roots.
    question: Digest,
    /// Made when there is an answer that is not known yet.
    folder: OnceCell<tempfile::TempDir>,
}

impl Apt {
    /// With the lists of a distribution, whose signatures it checks with the keys of our profile.
    pub fn new(distribution: &Distribution, arch: Arch, mirror: &Mirror) -> Self {
        let profiles = Profiles::embedded();
        let fingerprints: Vec<String> = (profiles.get(distribution.profile).unwrap().repositories.iter())
            .flat_map(|repository| repository.trust.metadata.clone())
            .collect();
        let keys: String =
            profiles.certificates(&fingerprints).iter().map(|key| format!("{}\n", key.armored.trim())).collect();
        // Read before anything of this machine's own configuration, which it thereby never reads.
        let conf = format!(
            "Dir \"{ROOT}/\";\nDir::State \"{ROOT}/state/\";\nDir::State::status \"{ROOT}/status\";\n\
             Dir::Cache \"{ROOT}/cache/\";\nAPT::Architecture \"{arch}\";\nAPT::Architectures \"{arch}\";\n\
             APT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\nAcquire::Check-Valid-Until \"false\";\n\
             Acquire::http::Proxy \"DIRECT\";\nAPT::Get::Always-Include-Phased-Updates \"true\";\n"
        );
        let components = distribution.components.join(" ");
        let sources: String = (distribution.suites.iter())
            .map(|(suite, tree)| format!("deb [signed-by={ROOT}/keys.asc] {MIRROR}{tree} {suite} {components}\n"))
            .collect();
        let version = Command::new("apt-get").arg("--version").output().unwrap();
        let mut question = format!("{}\n{INSTALL:?}\n{conf}{sources}{keys}", String::from_utf8_lossy(&version.stdout));
        // It has the digests of all the rest.
        for (suite, tree) in distribution.suites {
            question += &fs::read_to_string(snapshot().join(tree).join("dists").join(suite).join("InRelease")).unwrap();
        }
        let question = Digest::of(question);
        Self { mirror: mirror.url(""), conf, sources, keys, question, folder: OnceCell::new() }
    }

    /// Addresses of what it would fetch; what it says where there is no way.
    pub fn install(&self, roots: &[&str]) -> Result<BTreeSet<String>, String> {
        let kept = answers().join(Digest::of(format!("{}\n{}", self.question, roots.join(" "))).hex());
        if let Ok(text) = fs::read_to_string(&kept) {
            return Ok(text.lines().map(|line| line.replacen(MIRROR, &self.mirror, 1)).collect());
        }
        let output = self.get(&[&INSTALL, roots].concat());
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let urls = text.lines().filter_map(|line| line.strip_prefix('\'')?.split('\'').next());
        let urls: BTreeSet<String> = urls.map(plain).collect();
        let lines: String = urls.iter().map(|url| url.replacen(&self.mirror, MIRROR, 1) + "\n").collect();
        let mut file = tempfile::NamedTempFile::new_in(answers()).unwrap();
        std::io::Write::write_all(&mut file, lines.as_bytes()).unwrap();
        file.persist(kept).unwrap();
        Ok(urls)
    }

    fn get(&self, args: &[&str]) -> Output {
        let folder = self.folder.get_or_init(|| self.root());
        apt_get(folder.path(), args)
    }

    /// A root whose lists were fetched and trusted.
    fn root(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for part in [
            "state/lists/partial",
            "cache/archives/partial",
            "etc/apt/apt.conf.d",
            "etc/apt/sources.list.d",
            "etc/apt/preferences.d",
        ] {
            fs::create_dir_all(root.join(part)).unwrap();
        }
        let at = root.to_str().unwrap();
        fs::write(root.join("status"), "").unwrap();
        fs::write(root.join("apt.conf"), self.conf.replace(ROOT, at)).unwrap();
        fs::write(root.join("keys.asc"), &self.keys).unwrap();
        let sources = self.sources.replace(ROOT, at).replace(MIRROR, &self.mirror);
        fs::write(root.join("etc/apt/sources.list"), sources).unwrap();
        let output = apt_get(root, &["-qq", "update"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        folder
    }
}

fn apt_get(root: &Path, args: &[&str]) -> Output {
    Command::new("apt-get")
        .args(args)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .env("APT_CONFIG", root.join("apt.conf"))
        .output()
        .unwrap()
}

/// What apt said before, a file an answer; who does not trust them removes the folder.
fn answers() -> PathBuf {
    let folder = snapshot().with_file_name("apt-answers");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Without the escapes of an address: `%2b` is `+`.
fn plain(url: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = url.as_bytes();
    while let [first, behind @ ..] = rest {
        let escaped = (*first == b'%').then(|| behind.get(..2)).flatten();
        match escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()) {
            Some(byte) => (bytes, rest) = (pushed(bytes, byte), &behind[2..]),
            None => (bytes, rest) = (pushed(bytes, *first), behind),
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn pushed(mut bytes: Vec<u8>, byte: u8) -> Vec<u8> {
    bytes.push(byte);
    bytes
}
