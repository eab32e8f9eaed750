//! Executes the depot's own step of a create below a folder. Then the depot runs, and a host that is not a node follows
//! its README. apt, dnf, rpm and dpkg are this machine's, with folders in memory that are removed with the host.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Stdio};

use kubexm_engine::slots::SlotSource as _;
use kubexm_plan::SlotProvider;
use kubexm_plan::op::{Content, Op};
use kubexm_spec::cluster::{RegistryAuth, SecretSource};
use kubexm_spec::depot::DepotConfig;

use super::*;
use crate::run::login::in_form;

/// Of the login, where a depot demands one.
const PASSWORD: &str = "hunter2$x'\\%s";

/// A cluster whose depot demands a login.
fn with_login(cluster: &mut Cluster) {
    let password = SecretSource::Env("REGISTRY_PASSWORD".to_owned()).into();
    let auth = RegistryAuth { username: "o'puller".to_owned(), password };
    cluster.registry.auths.insert("registry.demo.kubexm.internal".to_owned(), auth);
}

/// A depot that runs until it is dropped.
struct Depot {
    folder: PathBuf,
    config: DepotConfig,
    signed: Vec<RepositoryFile>,
    _runtime: tokio::runtime::Runtime,
}

impl Depot {
    /// The registry host is this machine; the port is a free one, which is part of every generated file.
    fn of(site: &mut Site) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        site.opened.cluster.cluster_mut().hosts[0].address = "127.0.0.1".to_owned();
        let interfaces = &mut site.facts.get_mut("node1").unwrap().interfaces;
        interfaces[0].addresses.push("127.0.0.1/8".to_owned());
        // Another test may take the port in the meantime.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            site.opened.cluster.cluster_mut().registry.port = port;
            let (config, signed) = carry_out(site);
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().unwrap();
            let path = site.folder.path().join("depot/config.json");
            std::fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
            match runtime.block_on(kubexm_depot::serve(&path, None)) {
                Ok(running) => {
                    runtime.spawn(running.run());
                    return Self { folder: site.folder.path().to_owned(), config, signed, _runtime: runtime };
                }
                Err(kubexm_depot::DepotError::Listen { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no free port");
    }

    fn url(&self) -> &str {
        &self.config.packages.as_ref().unwrap().url
    }

    /// The depot's path of a file in its only repository.
    fn path(&self, name: &str) -> PathBuf {
        let served = self.config.packages.as_ref().unwrap();
        let repository = served.repositories.values().next().unwrap();
        let (folder, digest) = match repository.metadata.get(name) {
            Some(digest) => (&served.metadata, digest),
            None => (&self.config.store, &repository.packages[name]),
        };
        Path::new(folder).join("blobs/sha256").join(digest.hex())
    }

    /// Changes the last byte of a file of the repository while `work` runs.
    fn tampered(&self, name: &str, work: impl FnOnce()) {
        let path = self.path(name);
        let whole = std::fs::read(&path).unwrap();
        let mut other = whole.clone();
        *other.last_mut().unwrap() ^= 1;
        std::fs::write(&path, other).unwrap();
        work();
        std::fs::write(&path, whole).unwrap();
    }
}

/// The file of a package.
fn file_name(site: &Site, package: &str) -> String {
    let is = |one: &&Artifact| matches!(&one.key, ArtifactKey::Package { name, .. } if name == package);
    site.opened.bundle.manifest().artifacts.iter().find(is).unwrap().name.clone()
}

/// Runs the depot's step of a create below a folder, with the bundle's blobs as its store.
fn carry_out(site: &Site) -> (DepotConfig, Vec<RepositoryFile>) {
    let folder = site.folder.path();
    let below = |path: &str| folder.join("depot").join(path.trim_start_matches('/'));
    let put = |path: PathBuf, bytes: &[u8]| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let mut carried = site.read().unwrap();
    carried.publish(&site.opened, &site.home()).unwrap();
    let mut manifest = sample::manifest(&site.opened.cluster, &site.opened.catalogue).unwrap();
    manifest.artifacts.retain(|artifact| !matches!(artifact.key, ArtifactKey::Package { .. }));
    for artifact in &site.opened.bundle.manifest().artifacts {
        let bytes = site.opened.bundle.read(&members::blob_name(&artifact.digest), 1 << 20).unwrap();
        put(below("/store/blobs/sha256").join(artifact.digest.hex()), &bytes);
        manifest.artifacts.push(artifact.clone());
    }
    let cx = site.opened.plan_cx(&site.facts, &carried.packages);
    let cluster_id = Some(sample::CLUSTER_ID);
    let plan = kubexm_recipes::create(&kubexm_recipes::PlanContext { manifest: &manifest, cluster_id, ..cx }).unwrap();
    let pki = kubexm_engine::pki::ClusterPki::open(&folder.join("pki")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let step = plan.steps.iter().find(|step| step.id.0 == "node1/depot.serve").unwrap();
    for op in &step.ops {
        let Op::File(file) = op else { continue };
        let bytes = match &file.content {
            Content::Text { digest } => plan.texts[digest].clone().into_bytes(),
            Content::Filled { .. } => continue,
            Content::Slot { slot } => match &plan.slots[slot] {
                SlotProvider::RegistryLogin { username, form, .. } => {
                    in_form(*form, username, PASSWORD, &plan).unwrap().as_bytes().to_vec()
                }
                provider => runtime.block_on(pki.value(slot, provider, &plan)).unwrap(),
            },
        };
        put(below(&file.path), &bytes);
    }
    let config = std::fs::read(below("/etc/kubexm/depot/config.json")).unwrap();
    let mut config: DepotConfig = serde_json::from_slice(&config).unwrap();
    config.listen.set_ip([127, 0, 0, 1].into());
    config.store = below("/store").display().to_string();
    for path in [&mut config.tls.cert, &mut config.tls.key, &mut config.packages.as_mut().unwrap().metadata] {
        *path = below(path).display().to_string();
    }
    config.login = config.login.map(|path| below(&path).display().to_string());
    (config, carried.packages.sets.remove(0).repository)
}

/// A host without the depot's configuration and without any package.
struct Host {
    holder: Child,
}

impl Host {
    fn new(depot: &Depot) -> Self {
        let script = "mount --make-rprivate / && mount -t tmpfs none /mnt\n\
            for part in etc usr var; do\n\
              mkdir /mnt/$part /mnt/$part.work\n\
              mount -t overlay none -o lowerdir=/$part,upperdir=/mnt/$part,workdir=/mnt/$part.work /$part\n\
            done\n\
            rm -rf /etc/apt/* /etc/yum.repos.d /var/lib/dpkg/* /var/lib/rpm /var/lib/dnf /var/lib/apt/lists\n\
            cd /etc/apt && mkdir apt.conf.d sources.list.d preferences.d trusted.gpg.d /etc/yum.repos.d\n\
            cd /var/lib/dpkg && mkdir info updates triggers && touch status\n\
            printf '#!/bin/sh\\nexec dnf --releasever=9 \"$@\"\\n' > /usr/local/bin/yum && chmod 755 /usr/local/bin/yum\n\
            echo ready && exec cat";
        let mut holder = Command::new("unshare")
            .args(["--mount", "sh", "-ec", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare: tests of real package managers are run by root");
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the private folders could not be made: is this root?");
        let host = Self { holder };
        host.does(&format!("cp {}/depot/etc/kubexm/depot/ca.crt /mnt/ca.crt", depot.folder.display()));
        if depot.config.login.is_some() {
            let password = depot.folder.join("password");
            std::fs::write(&password, format!("{PASSWORD}\n")).unwrap();
            host.does(&format!("cp {} /mnt/password", password.display()));
        }
        host
    }

    /// Runs a script; returns whether it succeeded, and its output. Debian's rpm keeps its database in the home folder.
    fn tries(&self, script: &str) -> (bool, String) {
        let output = Command::new("nsenter")
            .arg(format!("--target={}", self.holder.id()))
            .args(["--mount", "sh", "-ec", &format!("cd /mnt\n{script}")])
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .envs([("HOME", "/mnt"), ("LC_ALL", "C.UTF-8"), ("DEBIAN_FRONTEND", "noninteractive")])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), said)
    }

    fn does(&self, script: &str) -> String {
        let (well, said) = self.tries(script);
        assert!(well, "{script}: {said}");
        said
    }

    fn refuses(&self, script: &str, why: &str) {
        let (well, said) = self.tries(script);
        assert!(!well && said.contains(why), "{script}: {said}");
    }

    /// Follows the list of repositories, and then the README of one, as a person would.
    fn follows_the_readme(&self, depot: &Depot, repository: &str) -> String {
        let curl = "curl --silent --show-error --fail --cacert ca.crt";
        let login = match depot.config.login {
            Some(_) => {
                self.refuses(&format!("{curl} {}/", depot.url()), "401");
                "--user \"o'puller:$(cat password)\" "
            }
            None => "",
        };
        let get = |url: &str| self.does(&format!("{curl} {login}{url}"));
        let listed = get(&format!("{}/", depot.url()));
        let of = format!("{}/{repository}/", depot.url());
        assert!(listed.contains(&of), "{listed}");
        let readme = get(&format!("{of}README"));
        let (to_do, _) = readme.split_once("To undo it").unwrap();
        let commands: Vec<&str> = to_do.lines().filter_map(|line| line.strip_prefix("  ")).collect();
        assert!(commands.len() > 4, "{readme}");
        self.does(&commands.join("\n"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

#[test]
fn plain_apt_installs_from_the_depot_with_its_checks_on_and_refuses_what_was_tampered_with() {
    let mut site = Site::debian("1.0-1");
    let depot = Depot::of(&mut site);
    for file in depot.signed.iter().filter(|file| file.path != "kubexm.list") {
        let served = std::fs::read_to_string(depot.path(&file.path)).unwrap();
        assert_eq!(served, file.text, "{} of the depot is not that of a node's folder", file.path);
    }
    let host = Host::new(&depot);
    let said = host.follows_the_readme(&depot, "debian-12-amd64");
    assert!(said.contains("127.0.0.1") && !said.contains("W:"), "{said}");
    let install = "apt-get install -y socat";
    let file = file_name(&site, "socat");
    depot.tampered(&file, || host.refuses(install, "Hash Sum mismatch"));
    host.does(install);
    let there = host.does("dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'");
    assert_eq!(there, "ethtool 1.0-1 ii \nsocat 1.0-1 ii \n");
    let again = "rm -rf /var/lib/apt/lists; apt-get update --error-on=any";
    depot.tampered("Packages", || host.refuses(again, "Hash Sum mismatch"));
    let clear = std::fs::read_to_string(depot.path("InRelease")).unwrap();
    std::fs::write(depot.path("InRelease"), clear.replace("Suite: kubexm", "Suite: kubexn")).unwrap();
    host.refuses(again, "BADSIG");
    std::fs::write(depot.path("InRelease"), clear).unwrap();
    host.does(again);
    // Only the README's steps made the depot's certificate trusted: the machine's own CAs do not.
    host.refuses(&format!("rm /etc/apt/apt.conf.d/90kubexm; {again}"), "ertificate");
}

#[test]
fn apt_shows_the_login_that_the_readme_sets_up_and_gets_nothing_without_it() {
    let site = |folder: &Path, name: &str| ("1.0-1".to_owned(), deb(folder, name, "1.0-1"));
    let mut site = Site::new("debian-12", with_login, site);
    let depot = Depot::of(&mut site);
    let host = Host::new(&depot);
    host.follows_the_readme(&depot, "debian-12-amd64");
    let again = "rm -rf /var/lib/apt/lists; apt-get update --error-on=any";
    host.does(&format!("{again} && apt-get install -y socat"));
    let modes = host.does("stat -c '%a' /etc/apt/auth.conf.d/90kubexm.conf /etc/kubexm-packages/netrc");
    assert_eq!(modes, "600\n600\n");
    host.refuses(&format!("rm /etc/apt/auth.conf.d/90kubexm.conf; {again}"), "401");
}

/// A vendor of packages whose key a site trusts.
struct Vendor {
    folder: TempDir,
}

impl Vendor {
    fn new() -> Self {
        let vendor = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::set_permissions(vendor.folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        run(vendor.gpg().args(["--quick-gen-key", "vendor", "rsa2048", "default", "never"]));
        run(vendor.gpg().args(["--export", "--armor", "--output"]).arg(vendor.key()));
        vendor
    }

    fn gpg(&self) -> Command {
        let mut gpg = Command::new("gpg");
        gpg.arg("--homedir").arg(self.folder.path());
        gpg.args(["--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]);
        gpg
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("key.asc")
    }

    fn signed(&self, package: &[u8]) -> Vec<u8> {
        let (path, home) = (self.folder.path().join("a.rpm"), format!("_gpg_path {}", self.folder.path().display()));
        std::fs::write(&path, package).unwrap();
        let define = ["--define", "_gpg_name vendor", "--define", &home, "--define", "__gpg /usr/bin/gpg"];
        run(Command::new("rpmsign").args(define).arg("--addsign").arg(&path));
        std::fs::read(path).unwrap()
    }
}

impl Drop for Vendor {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf").arg("--homedir").arg(self.folder.path()).args(["--kill", "all"]).output();
    }
}

#[test]
fn plain_dnf_installs_from_the_depot_with_its_checks_on_and_refuses_what_was_tampered_with_or_nobody_signed() {
    let vendor = Vendor::new();
    let mut site = rocky_of(|name| match name {
        "alpha" | "beta" => vendor.signed(&rpm(name)),
        _ => rpm(name),
    });
    let depot = Depot::of(&mut site);
    let host = Host::new(&depot);
    host.follows_the_readme(&depot, "rocky-9-amd64");
    let keys = "rpm -q --qf '%{summary}\\n' gpg-pubkey";
    let of_vendor = host.does(keys);
    assert!(of_vendor.contains("Rocky"), "{of_vendor}");
    host.does(&format!("rpm --import {}", vendor.key().display()));
    let install = "yum -y install alpha";
    depot.tampered(&file_name(&site, "alpha"), || host.refuses(install, "alpha"));
    host.does(install);
    assert_eq!(host.does("rpm -q alpha beta"), "alpha-1.0-1.noarch\nbeta-1.0-1.noarch\n");
    assert!(!host.does(keys).contains("KubeXM"), "the site's key vouches for the packages of every repository");
    host.refuses("yum -y install socat", "not signed");
    // Debian's dnf skips a repository that fails.
    let again = "yum -y --setopt=kubexm.skip_if_unavailable=0 makecache --refresh";
    depot.tampered("repodata/repomd.xml", || host.refuses(again, "Bad GPG signature"));
    host.does(again);
    host.refuses(&format!("rm /etc/kubexm-packages/ca.crt; {again}"), "kubexm");
}

#[test]
fn dnf_shows_the_login_that_the_readme_sets_up_and_gets_nothing_without_it() {
    let mut site = rocky_with(with_login, rpm);
    let depot = Depot::of(&mut site);
    let host = Host::new(&depot);
    host.follows_the_readme(&depot, "rocky-9-amd64");
    let again = "yum -y --setopt=kubexm.skip_if_unavailable=0 makecache --refresh";
    host.does(again);
    assert_eq!(host.does("stat -c '%a' /etc/yum.repos.d/kubexm.repo"), "600\n");
    host.refuses(&format!("sed -i /^password=/d /etc/yum.repos.d/kubexm.repo; {again}"), "401");
}
