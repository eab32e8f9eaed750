//! Small packages of dpkg-deb and rpmbuild in real bundles; apt and dnf read the repositories that come of them.

use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use kubexm_archive::{Input, Options, members, write};
use kubexm_manifests::{Catalogue, require};
use kubexm_packages::trust::{Keyring, Policy, clearsigned, detached};
use kubexm_plan::facts::InstalledPackages;
use kubexm_recipes::charts::CarriedCharts;
use kubexm_recipes::packages::{RepositoryFile, folder};
use kubexm_recipes::sample;
use kubexm_spec::lock::{PackageSet, SCHEMA};
use kubexm_spec::manifest::{Blob, Manifest, Member};
use kubexm_spec::{Arch, Cluster, Digest, ExitCode, ExitError as _, Family, Lock};
use tempfile::TempDir;

use super::*;
use crate::bundle::cluster_file::ClusterFile;
use crate::bundle::lock;
use crate::bundle::materials::ReadMaterials;
use crate::home::Home;
use crate::options::{ReplaceOptions, TrustOptions};

mod served;

const DATE: i64 = 1_700_000_000;

struct Site {
    folder: TempDir,
    opened: Opened,
    facts: BTreeMap<String, Facts>,
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (reported, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {reported}{wrong}");
    format!("{reported}{wrong}")
}

fn deb(folder: &Path, name: &str, version: &str) -> Vec<u8> {
    let (tree, file) = (folder.join(format!("tree-{name}")), folder.join(format!("{name}.deb")));
    std::fs::create_dir_all(tree.join("DEBIAN")).unwrap();
    let depends = if name == "socat" { "Depends: ethtool (>= 1.0)\n" } else { "" };
    let control = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: me <me@localhost>\n{depends}Description: {name}\n"
    );
    std::fs::write(tree.join("DEBIAN/control"), control).unwrap();
    run(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).args([&tree, &file]));
    std::fs::read(file).unwrap()
}

impl Site {
    /// A bundle of one host; `content` of each package by its name.
    fn new(os: &str, change: impl FnOnce(&mut Cluster), content: impl Fn(&Path, &str) -> (String, Vec<u8>)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = sample::cluster();
        cluster.bundle.os = vec![os.to_owned()];
        change(&mut cluster);
        let catalogue = Catalogue::embedded();
        let need = require(&cluster, &catalogue).unwrap().packages.remove(0);
        let set = PackageSet {
            os: need.os,
            platform: need.platform,
            roots: need.roots,
            indexes: Vec::new(),
            date: DATE,
            because: BTreeMap::new(),
        };
        let lock = Lock {
            schema: SCHEMA.to_owned(),
            name: cluster.name.clone(),
            kubernetes: None,
            zone: None,
            items: Vec::new(),
            renderings: Vec::new(),
            packages: vec![set],
        };
        let lock = serde_saphyr::to_string(&lock).unwrap().into_bytes();
        let mut manifest = sample::manifest(&cluster, &catalogue).unwrap();
        manifest.artifacts.retain(|artifact| matches!(artifact.key, ArtifactKey::Package { .. }));
        let mut contents: Vec<(String, Vec<u8>)> = vec![
            ("lock.yaml".into(), lock.clone()),
            ("oci-layout".into(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
            ("index.json".into(), br#"{"schemaVersion":2,"manifests":[]}"#.to_vec()),
        ];
        for artifact in &mut manifest.artifacts {
            let ArtifactKey::Package { name, .. } = &artifact.key else { continue };
            let (version, bytes) = content(folder.path(), name);
            artifact.version = version;
            artifact.digest = Digest::of(&bytes);
            artifact.blobs = vec![Blob { digest: artifact.digest, size: bytes.len() as u64 }];
            contents.push((members::blob_name(&artifact.digest), bytes));
        }
        let members = contents.iter().map(|(name, bytes)| Member {
            name: name.clone(),
            size: bytes.len() as u64,
            sha256: Digest::of(bytes),
        });
        let manifest = Manifest { lock: Digest::of(&lock), members: members.collect(), ..manifest };
        let inputs = contents.into_iter().map(|(name, bytes)| Input::bytes(name, bytes)).collect();
        let path = folder.path().join("site.tar.zst");
        write(&path, &manifest, inputs, &Options::default(), &|_, _| {}).unwrap();
        let bundle = Bundle::open(&path).unwrap();
        let (packages, renderings) = lock::read(&bundle).unwrap();
        let charts = CarriedCharts { renderings, ..CarriedCharts::default() };
        let facts = sample::all_facts(&cluster);
        let home = Home::new(folder.path().to_owned(), None, None);
        let provenance = TrustOptions::default().judge(&bundle, &home).unwrap();
        let cluster = ClusterFile::of_test(cluster, Digest::of("cluster.yaml"));
        let materials = ReadMaterials::read(&cluster, None, &bundle);
        let replace = ReplaceOptions::default();
        let (set_aside, without_fan_out, new_registry_ca) = (false, false, false);
        let (pipeline, os_packages) = (kubexm_plan::Pipeline::Create, false);
        let opened = Opened {
            bundle,
            provenance,
            allow_unsigned: false,
            cluster,
            catalogue,
            packages,
            charts,
            signed: None,
            materials,
            set_aside,
            without_fan_out,
            new_registry_ca,
            pipeline,
            os_packages,
            replace,
        };
        Self { folder, opened, facts }
    }

    fn debian(version: &str) -> Self {
        Self::new("debian-12", |_| (), |folder, name| ("1.0-1".to_owned(), deb(folder, name, version)))
    }

    fn home(&self) -> ClusterHome {
        ClusterHome { folder: self.folder.path().join("home"), name: "demo".to_owned() }
    }

    fn without_socat(&mut self) {
        self.facts.get_mut("node1").unwrap().programs.insert("socat".to_owned(), None);
    }

    fn read(&self) -> Result<Carried, SessionError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Carried::read(&self.opened, &self.facts))
    }

    fn published(&self) -> Vec<RepositoryFile> {
        let mut carried = self.read().unwrap();
        carried.publish(&self.opened, &self.home()).unwrap();
        carried.packages.sets.remove(0).repository
    }

    /// The repository as a host has it, at another place: links to the packages beside the metadata.
    fn laid_out(&self, os: &str) -> PathBuf {
        let (there, here) = (folder(os, Arch::Amd64), self.folder.path().join("repo"));
        for file in self.published() {
            let path = here.join(&file.path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let plain_list = file.path.starts_with("kubexm.");
            let text = if plain_list { file.text.replace(&there, here.to_str().unwrap()) } else { file.text };
            std::fs::write(path, text).unwrap();
        }
        for artifact in &self.opened.bundle.manifest().artifacts {
            let bytes = self.opened.bundle.read(&members::blob_name(&artifact.digest), 1 << 20).unwrap();
            std::fs::write(here.join(&artifact.name), bytes).unwrap();
        }
        here
    }
}

fn text<'a>(files: &'a [RepositoryFile], path: &str) -> &'a str {
    &files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}")).text
}

#[test]
fn without_missing_packages_the_pool_is_not_read_and_the_depot_still_serves_all() {
    let mut site = Site::debian("1.0-1");
    assert!(site.read().unwrap().packages.sets[0].pool.is_empty());
    assert!(!site.home().pki().exists());
    let of_the_depot = site.published();
    site.without_socat();
    assert_eq!(of_the_depot, site.published());
}

#[test]
fn repositories_are_signed_with_the_clusters_key_reproducibly() {
    let mut site = Site::debian("1.0-1");
    site.without_socat();
    let files = site.published();
    assert_eq!(files, site.published());
    let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(names, ["kubexm.asc", "InRelease", "Packages", "kubexm.list"]);
    let keys = Keyring::read(text(&files, "kubexm.asc").as_bytes()).unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let policy = Policy::at(i64::try_from(now).unwrap() + 60);
    let (release, _) = clearsigned(text(&files, "InRelease").as_bytes(), &keys, &policy).unwrap();
    assert!(release.contains("Date: Tue, 14 Nov 2023 22:13:20 UTC"), "dated by the lock: {release}");
    assert!(release.contains(Digest::of(text(&files, "Packages")).hex().as_str()), "{release}");
    let key = site.home().pki().join("packages-key.asc");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let other = ClusterHome { folder: site.folder.path().join("other"), name: "demo".to_owned() };
    let mut carried = site.read().unwrap();
    carried.publish(&site.opened, &other).unwrap();
    let foreign = Keyring::read(text(&carried.packages.sets[0].repository, "kubexm.asc").as_bytes()).unwrap();
    assert!(clearsigned(text(&files, "InRelease").as_bytes(), &foreign, &policy).is_err());
}

#[test]
fn apt_takes_the_repository_with_its_checks_on() {
    let mut site = Site::debian("1.0-1");
    site.without_socat();
    let (repository, root) = (site.laid_out("debian-12"), site.folder.path().join("apt"));
    for folder in ["state/lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d", "log"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::fs::write(root.join("status"), "").unwrap();
    let config = format!(
        "Dir::State \"{0}/state\"; Dir::State::status \"{0}/status\"; Dir::Cache \"{0}/cache\"; Dir::Etc \"{0}/etc\"; \
         Dir::Etc::sourcelist \"{1}/kubexm.list\"; Dir::Etc::sourceparts \"-\"; Dir::Log \"{0}/log\"; \
         APT::Architecture \"amd64\"; APT::Architectures {{ \"amd64\"; }}; APT::Sandbox::User \"root\"; \
         Acquire::AllowInsecureRepositories \"false\";\n",
        root.display(),
        repository.display()
    );
    std::fs::write(root.join("apt.conf"), config).unwrap();
    let apt = |args: &[&str]| run(Command::new("apt-get").env("APT_CONFIG", root.join("apt.conf")).args(args));
    let reported = apt(&["update"]);
    assert!(!reported.contains("W:") && !reported.contains("E:"), "{reported}");
    let reported = apt(&["install", "--print-uris", "-qq", "-y", "socat=1.0-1"]);
    assert!(reported.contains("/socat_1.0-1_amd64.deb") && reported.contains("/ethtool_1.0-1_amd64.deb"), "{reported}");
    std::fs::write(repository.join("Packages"), "Package: evil\n").unwrap();
    std::fs::remove_dir_all(root.join("state/lists")).unwrap();
    let refused = Command::new("apt-get").env("APT_CONFIG", root.join("apt.conf")).arg("update").output().unwrap();
    assert!(!refused.status.success(), "{}", String::from_utf8_lossy(&refused.stderr));
}

#[test]
fn nothing_is_signed_before_every_byte_of_every_package_was_verified() {
    // Its headers are in the first frame, which is right; the last byte of the next frame is not.
    let large = |folder: &Path, name: &str| {
        let mut bytes = deb(folder, name, "1.0-1");
        if name == "socat" {
            bytes.resize(bytes.len() + (17 << 20), 7);
        }
        ("1.0-1".to_owned(), bytes)
    };
    let mut site = Site::new("debian-12", |_| (), large);
    site.without_socat();
    assert!(!site.published().is_empty());
    std::fs::remove_dir_all(site.home().folder).unwrap();

    let bundle = &site.opened.bundle;
    let is_socat = |one: &&Artifact| matches!(&one.key, ArtifactKey::Package { name, .. } if name == "socat");
    let socat = bundle.manifest().artifacts.iter().find(is_socat).unwrap();
    let member = bundle.find(&members::blob_name(&socat.digest)).unwrap();
    let last = bundle.stored_offset(member) + bundle.stored_size(member) - 1;
    let file = std::fs::File::options().read(true).write(true).open(bundle.path()).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, last).unwrap();
    file.write_all_at(&[byte[0] ^ 1], last).unwrap();

    let mut carried = site.read().unwrap();
    let error = carried.publish(&site.opened, &site.home()).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::BundleDamaged);
    assert!(error.to_string().contains("package/debian-12/socat"), "{error}");
    assert!(carried.packages.sets[0].repository.is_empty());
    assert!(!site.home().pki().exists(), "not even a key was made");
}

/// A host of Rocky 9 that lacks alpha, which needs a path of beta's that no index lists by itself.
fn rocky() -> Site {
    rocky_of(rpm)
}

fn rocky_of(content: impl Fn(&str) -> Vec<u8>) -> Site {
    rocky_with(|_| (), content)
}

fn rocky_with(change: impl FnOnce(&mut Cluster), content: impl Fn(&str) -> Vec<u8>) -> Site {
    let own = |cluster: &mut Cluster| {
        cluster.system.rpms = vec!["alpha".to_owned(), "beta".to_owned()];
        change(cluster);
    };
    let mut site = Site::new("rocky-9", own, |_, name| ("1.0-1".to_owned(), content(name)));
    let facts = site.facts.get_mut("node1").unwrap();
    (facts.os_id, facts.os_version, facts.os_edition) =
        ("rocky".to_owned(), "9.4".to_owned(), "9.4 (Blue Onyx)".to_owned());
    let list = ["iptables-nft", "bash-completion"].map(|name| format!("N\t{name}\t0\t1.0\t1\tx86_64\n")).concat();
    facts.packages = Some(InstalledPackages { family: Family::Rpm, list, broken: None });
    site
}

fn rpm(name: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("a.spec");
    let (requires, install, file) = match name {
        "alpha" => ("Requires: /usr/share/beta/f\n", "", ""),
        "beta" => {
            ("", "mkdir -p %{buildroot}/usr/share/beta; echo > %{buildroot}/usr/share/beta/f\n", "/usr/share/beta/f\n")
        }
        _ => ("", "", ""),
    };
    let text = format!(
        "Name: {name}\nVersion: 1.0\nRelease: 1\nSummary: {name}\nLicense: x\nBuildArch: noarch\n{requires}%description\nx\n\
         %install\n{install}%files\n{file}"
    );
    std::fs::write(&spec, text).unwrap();
    let top = format!("_topdir {}", folder.path().display());
    run(Command::new("rpmbuild").args(["-bb", "--quiet", "--define", &top]).arg(&spec));
    std::fs::read(folder.path().join(format!("RPMS/noarch/{name}-1.0-1.noarch.rpm"))).unwrap()
}

#[test]
fn dnf_takes_the_repository_with_its_checks_on_and_the_vendors_keys_are_beside_it() {
    let site = rocky();
    let repository = site.laid_out("rocky-9");
    let read = |path: &str| std::fs::read_to_string(repository.join(path)).unwrap();
    let keys = Keyring::read(read("kubexm.asc").as_bytes()).unwrap();
    let policy = Policy::at(i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap() + 60);
    let (index, signature) = (read("repodata/repomd.xml"), read("repodata/repomd.xml.asc"));
    detached(index.as_bytes(), signature.as_bytes(), &keys, &policy).unwrap();
    assert!(read("vendor.asc").contains("BEGIN PGP PUBLIC KEY BLOCK"));
    let source = read("kubexm.repo");
    for wanted in ["gpgcheck=1\n", "repo_gpgcheck=1\n", "enabled=0\n", "module_hotfixes=1\n"] {
        assert!(source.contains(wanted), "{wanted}: {source}");
    }
    // dnf makes rpm trust what is named here: who signs packages is said when they are installed.
    let keys: Vec<&str> = source.lines().filter(|line| line.contains(".asc")).collect();
    assert_eq!(keys, [format!("gpgkey=file://{}/kubexm.asc", repository.display())]);
    let root = site.folder.path().join("dnf");
    let config = site.folder.path().join("dnf.conf");
    std::fs::write(&config, "[main]\n").unwrap();
    std::fs::create_dir_all(root.join("log")).unwrap();
    let dnf = |args: &[&str]| {
        let set = |name: &str, path: &Path| format!("--setopt={name}={}", path.display());
        Command::new("dnf")
            .args([
                "-y",
                "--noplugins",
                "--releasever=9",
                "--forcearch=x86_64",
                "--disablerepo=*",
                "--enablerepo=kubexm",
            ])
            .args([
                set("reposdir", &repository),
                set("cachedir", &root.join("cache")),
                set("logdir", &root.join("log")),
            ])
            .args([set("persistdir", &root.join("state")), format!("--config={}", config.display())])
            .arg(format!("--installroot={}", root.join("root").display()))
            .args(args)
            .output()
            .unwrap()
    };
    let reported = dnf(&["repoquery", "--requires", "--resolve", "alpha"]);
    let said = String::from_utf8_lossy(&reported.stdout).into_owned() + &String::from_utf8_lossy(&reported.stderr);
    assert!(reported.status.success() && said.contains("beta-0:1.0-1.noarch"), "{said}");
    std::fs::write(repository.join("repodata/repomd.xml"), index.replace("<revision>", "<revision>1")).unwrap();
    std::fs::remove_dir_all(root.join("cache")).unwrap();
    let refused = dnf(&["repoquery", "alpha"]);
    assert!(!refused.status.success(), "{}", String::from_utf8_lossy(&refused.stdout));
}

#[test]
fn a_package_that_says_it_is_another_or_that_is_none_damages_the_bundle() {
    let mut other = Site::debian("1.1-1");
    other.without_socat();
    let failure = other.read().unwrap_err();
    assert_eq!(failure.exit_code(), ExitCode::BundleDamaged);
    let text = failure.to_string();
    assert!(text.contains("1.1-1") && text.contains("and should be"), "{text}");
    let mut none = Site::new("debian-12", |_| (), |_, name| ("1.0-1".to_owned(), format!("no {name}").into_bytes()));
    none.without_socat();
    let failure = none.read().unwrap_err().to_string();
    assert!(failure.contains("package/debian-12/"), "{failure}");
}
