//! apt with a root, lists and configuration of its own, on which nothing is installed.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use kubexm_manifests::os::Profiles;
use kubexm_spec::Arch;

use crate::mirror::Mirror;
use crate::sets::Distribution;

pub struct Apt {
    folder: tempfile::TempDir,
}

impl Apt {
    /// With the lists of a distribution, whose signatures it checks with the keys of our profile.
    pub fn new(distribution: &Distribution, arch: Arch, mirror: &Mirror) -> Self {
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
        fs::write(root.join("status"), "").unwrap();
        let at = root.display();
        // Read before anything of this machine's own configuration, which it thereby never reads.
        let text = format!(
            "Dir \"{at}/\";\nDir::State \"{at}/state/\";\nDir::State::status \"{at}/status\";\nDir::Cache \"{at}/cache/\";\n\
             APT::Architecture \"{arch}\";\nAPT::Architectures \"{arch}\";\nAPT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\n\
             Acquire::Check-Valid-Until \"false\";\nAcquire::http::Proxy \"DIRECT\";\n\
             APT::Get::Always-Include-Phased-Updates \"true\";\n"
        );
        fs::write(root.join("apt.conf"), text).unwrap();
        let profiles = Profiles::embedded();
        let fingerprints: Vec<String> = (profiles.get(distribution.profile).unwrap().repositories.iter())
            .flat_map(|repository| repository.trust.metadata.clone())
            .collect();
        let keys: String =
            profiles.certificates(&fingerprints).iter().map(|key| format!("{}\n", key.armored.trim())).collect();
        fs::write(root.join("keys.asc"), keys).unwrap();
        let sources: String = (distribution.suites.iter())
            .map(|(suite, tree)| {
                let components = distribution.components.join(" ");
                format!("deb [signed-by={at}/keys.asc] {} {suite} {components}\n", mirror.url(tree))
            })
            .collect();
        fs::write(root.join("etc/apt/sources.list"), sources).unwrap();
        let apt = Self { folder };
        let output = apt.get(&["-qq", "update"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        apt
    }

    fn get(&self, args: &[&str]) -> Output {
        Command::new("apt-get")
            .args(args)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C")
            .env("APT_CONFIG", self.folder.path().join("apt.conf"))
            .output()
            .unwrap()
    }

    /// Addresses of what it would fetch; what it says where there is no way.
    pub fn install(&self, roots: &[&str]) -> Result<BTreeSet<String>, String> {
        let mut args = vec!["-qq", "--print-uris", "--yes", "--no-install-recommends", "install"];
        args.extend(roots);
        let output = self.get(&args);
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let urls = text.lines().filter_map(|line| line.strip_prefix('\'')?.split('\'').next());
        Ok(urls.map(plain).collect())
    }
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
