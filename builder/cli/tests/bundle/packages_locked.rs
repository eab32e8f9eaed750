//! Packages of an operating system in locks and bundles, of Debian's own signed indexes (`scripts/lab packages` has them, and the
//! packages; it makes a new snapshot when that one is not good any more).

use std::collections::BTreeSet;

use kubexm_spec::lock::{Content, LockItem, PackageSet};
use kubexm_spec::{ArtifactKey, Digest, ExitCode, Lock, Trust};

use crate::cluster::{Lab, SETUP, SPEC, body};
use crate::materials::lab;
use crate::server::{Server, file};
use crate::site::{Ended, assert_contains};

/// What nodes need for time and beyond, on Debian 12.
const WANTED: &str = "  system: {ntpServers: [10.0.0.9], debs: [ipset]}\n";

/// Debian's mirror beside upstream's files.
pub fn served(path: &str) -> Vec<u8> {
    match path.strip_prefix("deb.debian.org/") {
        Some(rest) => std::fs::read(lab().join("packages").join(rest)).unwrap_or_default(),
        None => body(path),
    }
}

pub struct Site {
    pub lab: Lab,
}

impl Site {
    pub fn new(spec: &str) -> Self {
        assert!(lab().join("packages/debian/pool").is_dir(), "no packages: run scripts/lab packages");
        let spec = format!("{}{spec}", SPEC.replace("exclude: [helm]", "os: [debian-12], exclude: [helm]"));
        let lab = Lab::of(&spec, served);
        let site = Self { lab };
        site.mirror(site.lab.server.address());
        site
    }

    /// The zone leads to this address for Debian, and nowhere else.
    pub fn mirror(&self, address: &str) {
        let path = self.lab.site.path("zone.yaml");
        let zone = std::fs::read_to_string(&path).unwrap();
        let rest: String =
            zone.lines().filter(|line| !line.contains("deb.debian.org")).map(|line| format!("{line}\n")).collect();
        let rule =
            format!("- {{match: deb.debian.org, to: [\"{address}/deb.debian.org\"], plainHttp: true, only: true}}\n");
        std::fs::write(path, format!("{rest}{rule}")).unwrap();
    }

    /// The zone leads into a folder for Debian, and nowhere else.
    pub fn folder(&self, folder: &std::path::Path) {
        self.mirror("x");
        let path = self.lab.site.path("zone.yaml");
        let zone = std::fs::read_to_string(&path).unwrap();
        let to = format!("file://{}", folder.display());
        std::fs::write(
            path,
            zone.replace("x/deb.debian.org", &to)
                .replace(&format!("\"{to}\"], plainHttp: true"), &format!("\"{to}\"]")),
        )
        .unwrap();
    }

    fn cluster(&self, of: &str, now: &str) {
        let path = self.lab.site.path("cluster.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(of), "{text}");
        std::fs::write(path, text.replace(of, now)).unwrap();
    }

    pub fn run(&self, verb: &[&str], more: &[&str]) -> Ended {
        self.lab.site.run(&[verb, &["-f", "cluster.yaml"], &SETUP[..4], more].concat())
    }

    fn locked(spec: &str) -> Self {
        let site = Self::new(spec);
        site.lock();
        site
    }

    pub fn lock(&self) -> Ended {
        self.run(&["lock"], &SETUP[4..]).must(ExitCode::Ok)
    }

    pub fn build(&self, more: &[&str]) -> Ended {
        self.lab.site.build(&[&SETUP[..], more].concat())
    }

    pub fn read(&self) -> Lock {
        Lock::parse(&std::fs::read(self.lab.site.path("cluster.lock.json")).unwrap()).unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Lock)) {
        let mut lock = self.read();
        change(&mut lock);
        self.lab.site.write("cluster.lock.json", lock.to_text().unwrap());
    }

    /// Refused before anybody is asked, with these words.
    #[track_caller]
    fn drifts(&self, change: impl FnOnce(&mut Lock), words: &[&str]) {
        let (text, asked) =
            (std::fs::read(self.lab.site.path("cluster.lock.json")).unwrap(), self.lab.server.requests().len());
        self.change(change);
        let ended = self.build(&["--locked"]).must(ExitCode::LockDrift);
        assert_contains(&ended.err, words);
        assert_eq!(self.lab.server.requests().len(), asked, "somebody was asked");
        self.lab.site.write("cluster.lock.json", text);
    }
}

fn key(name: &str) -> ArtifactKey {
    ArtifactKey::Package { os: "debian-12".to_owned(), name: name.to_owned() }
}

fn item<'a>(lock: &'a mut Lock, name: &str) -> &'a mut LockItem {
    lock.items.iter_mut().find(|item| item.key == key(name)).unwrap()
}

fn names(lock: &Lock) -> BTreeSet<String> {
    let name = |item: &LockItem| match &item.key {
        ArtifactKey::Package { name, .. } => Some(name.clone()),
        _ => None,
    };
    lock.items.iter().filter_map(name).collect()
}

#[test]
fn a_lock_describes_each_package_and_its_bundle_is_the_same_without_an_index() {
    let site = Site::locked(WANTED);
    let lock = site.read();
    let [PackageSet { os, roots, indexes, date, because, .. }] = lock.packages.as_slice() else { panic!() };
    assert_eq!(os, "debian-12");
    assert_eq!(because.keys().cloned().collect::<BTreeSet<_>>(), names(&lock));
    assert_eq!(because["socat"], "required by socat");
    assert_eq!(because["libwrap0"], "socat Depends libwrap0 (>= 7.6-4~)");
    assert_eq!(because["systemd-timesyncd"], "chrony replaces it, and this one is for the rollback");
    assert!(!because.contains_key("systemd"), "of what is only a rollback nothing more is carried");
    assert_eq!(roots.last().map(|root| root.name.as_str()), Some("ipset"));
    let addresses: Vec<&str> = indexes.iter().map(|index| index.address.as_str()).collect();
    assert_eq!(
        addresses,
        [
            "https://deb.debian.org/debian/dists/bookworm/InRelease",
            "https://deb.debian.org/debian/dists/bookworm-updates/InRelease",
            "https://deb.debian.org/debian-security/dists/bookworm-security/InRelease"
        ]
    );
    assert!(indexes.iter().all(|index| index.signed));
    assert_eq!(Some(*date), indexes.iter().filter_map(|index| index.date).max());
    let socat = lock.find(&key("socat"), Some(kubexm_spec::Platform::LINUX_AMD64)).unwrap();
    let Content::File { file_name, digest, .. } = &socat.content else { panic!() };
    assert_eq!((socat.trust, file_name.as_str()), (Trust::Gpg, &*format!("socat_{}_amd64.deb", socat.version)));
    let path = format!("debian/pool/main/s/socat/{file_name}");
    assert_eq!(*digest, Digest::of(std::fs::read(lab().join("packages").join(&path)).unwrap()));
    let mirror = format!("http://{}/deb.debian.org/{path}", site.lab.server.address());
    assert_eq!(socat.sources, [mirror, format!("https://deb.debian.org/{path}")]);

    let asked = site.lab.server.requests().len();
    let bundle = site.lab.site.path("out.tar.zst");
    site.build(&["--locked", "--cache", "cold"]).must(ExitCode::Ok);
    let paths: Vec<String> = site.lab.server.requests().split_off(asked).into_iter().map(|one| one.path).collect();
    assert!(paths.iter().any(|path| path.ends_with(file_name)), "{paths:?}");
    assert!(!paths.iter().any(|path| path.contains("/dists/")), "an index was asked: {paths:?}");
    let first = std::fs::read(&bundle).unwrap();
    site.build(&[]).must(ExitCode::Ok);
    assert_eq!(std::fs::read(&bundle).unwrap(), first, "solved again it is another bundle");
    assert_eq!(site.lock().code, 0);
    assert_eq!(site.read(), lock, "locked again it is another lock");
}

#[test]
fn packages_of_a_bundle_are_listed_verified_and_extracted_for_a_repository() {
    let site = Site::locked("");
    site.build(&["--locked"]).must(ExitCode::Ok);
    let here = &site.lab.site;
    here.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
    assert_contains(&here.run(&["list", "out.tar.zst"]).must(ExitCode::Ok).out, &["package/debian-12/conntrack"]);
    let sbom = here.run(&["sbom", "out.tar.zst", "--format", "cyclonedx"]).must(ExitCode::Ok);
    assert_contains(&sbom.out, &["pkg:deb/debian/socat@", "arch=amd64&distro=debian-12"]);
    let shown = here.run(&["inspect", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    let of_kind = |found: &&serde_json::Value| found["key"].as_str().unwrap().starts_with("package/");
    let carried = shown["artifacts"].as_array().unwrap().iter().filter(of_kind).count();
    assert_eq!(carried, names(&site.read()).len());
    let folder = here.unpack(&here.path("out.tar.zst"));
    let index = std::fs::read_to_string(folder.join("index.json")).unwrap();
    assert_contains(&index, &["kubexm/package/debian-12/libip4tc2:", "application/vnd.kubexm.package.v1"]);

    here.run(&["extract", "out.tar.zst", "package/debian-12", "-C", "debs"]).must(ExitCode::Ok);
    here.run(&["packages", "key", "--bits", "2048", "site.key"]).must(ExitCode::Ok);
    let made =
        here.run(&["packages", "repo", "debs", "--sign-key", "site.key", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(made["packages"].as_array().unwrap().len(), carried);
    let one = here.run(&["extract", "out.tar.zst", "package/debian-12/socat", "-C", "one"]).must(ExitCode::Ok);
    assert_contains(&one.out, &["socat_"]);
    let missing = here.run(&["extract", "out.tar.zst", "package/debian-13", "-C", "none"]);
    assert_ne!(missing.code, 0);
}

#[test]
fn a_bundle_that_lost_a_package_is_incomplete() {
    let site = Site::locked("");
    site.build(&["--locked"]).must(ExitCode::Ok);
    let here = &site.lab.site;
    crate::verify::rewrite(here, &here.path("less.tar.zst"), None, |manifest| {
        manifest.artifacts.retain(|artifact| artifact.key != key("libwrap0"));
    });
    let text = here.run(&["verify", "less.tar.zst"]).must(ExitCode::BundleIncomplete).err;
    assert_contains(&text, &["package/debian-12/libwrap0 linux/amd64 (socat Depends libwrap0"]);
}

#[test]
fn a_lock_with_missing_or_unneeded_packages_is_refused_with_their_names() {
    let site = Site::locked("");
    site.drifts(
        |lock| lock.items.retain(|item| item.key != key("libwrap0")),
        &["package/debian-12/libwrap0 linux/amd64: needed, and not in the lock"],
    );
    site.drifts(
        |lock| {
            lock.packages[0].because.remove("libwrap0");
        },
        &["package/debian-12/libwrap0 linux/amd64: 7.6", "is in the lock, and nothing needs it"],
    );
    site.drifts(
        |lock| lock.packages.clear(),
        &["packages of: the lock has none, cluster.yaml and catalogue need debian-12 linux/amd64"],
    );
    site.drifts(
        |lock| lock.packages[0].roots.retain(|root| root.name != "socat"),
        &["package/debian-12/socat linux/amd64: root: the lock has none"],
    );
    site.drifts(
        |lock| item(lock, "socat").trust = Trust::Mirror,
        &["package/debian-12/socat linux/amd64: trust: the lock has mirror"],
    );
    site.drifts(
        |lock| item(lock, "socat").sources = vec!["https://evil.test/pool/socat_1_amd64.deb".to_owned()],
        &["package/debian-12/socat linux/amd64: address", "https://evil.test/pool/socat_1_amd64.deb"],
    );
    // Without a place nobody would be asked whose package it is, and the cache may have it.
    site.drifts(
        |lock| item(lock, "socat").sources.clear(),
        &[
            "package/debian-12/socat linux/amd64: address: the lock has none, its trust (gpg) needs one below a repository of debian-12",
            "a .deb carries no signature of its own",
        ],
    );
    site.drifts(
        |lock| lock.packages[0].indexes[0].address = "https://evil.test/debian/dists/bookworm/InRelease".to_owned(),
        &["index: the lock has https://evil.test/debian/dists/bookworm/InRelease, the profile of debian-12 has"],
    );
    site.drifts(
        |lock| lock.packages[0].indexes.clear(),
        &["package/debian-12/socat linux/amd64: index: the lock has none"],
    );
    site.drifts(
        |lock| lock.packages[0].indexes[0].signed = false,
        &["an unsigned one, the profile of debian-12 has a signed one"],
    );
    site.cluster("v1.34.4", "v1.34.4, proxyMode: ipvs");
    site.drifts(|_| {}, &["package/debian-12/ipvsadm linux/amd64: root: the lock has none"]);
}

#[test]
fn a_package_under_the_name_of_another_is_refused_before_it_is_packed() {
    let site = Site::locked("");
    site.change(|lock| {
        let (other, sources) = {
            let other = item(lock, "ethtool");
            (other.content.clone(), other.sources.clone())
        };
        // What a merge may do to a lock: the digest is of a good package.
        let socat = item(lock, "socat");
        (socat.content, socat.sources) = (other, sources);
    });
    let ended = site.build(&["--locked"]).must(ExitCode::OriginMismatch);
    assert_contains(&ended.err, &["package/debian-12/socat linux/amd64", "it is ethtool", "listed as another package"]);
}

#[test]
fn a_mirror_that_sends_other_bytes_is_refused() {
    let site = Site::locked("");
    let evil = Server::start(|request| {
        let mut body = served(&request.path);
        if request.path.ends_with(".deb")
            && request.path.contains("/socat_")
            && let Some(last) = body.last_mut()
        {
            *last ^= 1;
        }
        file(request, &body)
    });
    site.mirror(evil.address());
    site.run(&["update", "--sources"], &[]).must(ExitCode::Ok);
    let ended = site.build(&["--locked", "--cache", "cold"]).must(ExitCode::OriginMismatch);
    assert_contains(&ended.err, &["package/debian-12/socat"]);
}

#[test]
fn a_lock_is_moved_to_another_zone_and_digests_stay() {
    let site = Site::locked("");
    let lock = site.read();
    let other = Server::start(|request| file(request, &served(&request.path)));
    site.mirror(other.address());
    site.build(&["--locked", "--cache", "before"]).must(ExitCode::Ok);
    assert!(other.requests().iter().any(|one| one.path.contains("/socat_")), "the lock need not know the mirror");
    site.run(&["update", "--sources"], &[]).must(ExitCode::Ok);
    let moved = site.read();
    let digests = |lock: &Lock| lock.items.iter().map(LockItem::digest).collect::<Vec<_>>();
    assert_eq!(digests(&moved), digests(&lock));
    let socat = moved.items.iter().find(|item| item.key == key("socat")).unwrap();
    assert!(socat.sources[0].starts_with(&format!("http://{}/", other.address())), "{:?}", socat.sources);
    assert!(socat.sources[1].starts_with("https://deb.debian.org/debian/pool/"), "{:?}", socat.sources);
    site.build(&["--locked", "--cache", "cold"]).must(ExitCode::Ok);
    assert!(other.requests().iter().any(|one| one.path.contains("/socat_")));
}

#[test]
fn update_takes_all_packages_of_a_release_along_and_leaves_the_rest() {
    let site = Site::locked("");
    site.change(|lock| {
        item(lock, "socat").version = "1.0-1".to_owned();
        item(lock, "ethtool").version = "1:1.0-1".to_owned();
        let pause = lock.items.iter_mut().find(|item| item.key.to_string() == "image/pause").unwrap();
        pause.trust = Trust::OciDigest;
    });
    let before = site.read();
    for word in ["package/debian-12/socat", "debian-12"] {
        let shown = site.run(&["update", "--dry-run", word], &SETUP[4..]).must(ExitCode::Ok);
        assert_contains(&shown.out, &["package/debian-12/socat", "1.0-1", "package/debian-12/ethtool"]);
        assert!(!shown.out.contains("image/pause"), "{}", shown.out);
        assert_eq!(site.read(), before, "a dry run writes nothing");
    }
    site.cluster("os: [debian-12]", "os: [debian-12, ubuntu-22.04]");
    site.run(&["update", "package/debian-12/socat"], &SETUP[4..]).must(ExitCode::Ok);
    let after = site.read();
    assert_eq!(after.packages.len(), 1, "what was not named is not solved");
    let pause = |lock: &Lock| lock.items.iter().find(|item| item.key.to_string() == "image/pause").cloned();
    assert_eq!(pause(&after), pause(&before));
    assert_ne!(after.items.iter().find(|item| item.key == key("ethtool")).unwrap().version, "1:1.0-1");
    assert_contains(
        &site.run(&["update", "package/debian-12/sokat"], &SETUP[4..]).must(ExitCode::UnknownVersion).err,
        &["package/debian-12/socat"],
    );
    site.cluster(", ubuntu-22.04", "");
    site.cluster("os: [debian-12], ", "");
    site.run(&["update", "debian-12"], &SETUP[4..]).must(ExitCode::Ok);
    assert_eq!((site.read().packages.len(), names(&site.read()).len()), (0, 0), "nothing needs them any more");
}

#[test]
fn explain_knows_requested_packages_offline_and_their_dependencies_from_the_lock() {
    let site = Site::new("");
    let asked = site.lab.server.requests().len();
    let shown = site.build(&["--dry-run"]).must(ExitCode::Ok);
    assert_contains(&shown.out, &["packages of debian-12 linux/amd64, and all that these need: conntrack socat"]);
    let document = site.build(&["--dry-run", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["packages"][0]["roots"][0]["name"], "conntrack");
    let reported = site.run(&["explain", "socat"], &[]).must(ExitCode::Ok);
    assert_contains(
        &reported.out,
        &["package/debian-12/socat linux/amd64", "required by socat, for every node, unless it has socat"],
    );
    assert_ne!(site.run(&["explain", "libwrap0"], &[]).code, 0, "only a lock knows");
    assert_eq!(site.lab.server.requests().len(), asked, "somebody was asked");

    site.lock();
    let asked = site.lab.server.requests().len();
    let shown = site.build(&["--dry-run", "--locked"]).must(ExitCode::Ok);
    assert_contains(&shown.out, &["package/debian-12/libwrap0"]);
    assert!(!shown.out.contains("and all that these need"), "{}", shown.out);
    let reported = site.run(&["explain", "package/debian-12/libwrap0"], &[]).must(ExitCode::Ok);
    assert_contains(&reported.out, &["why    socat Depends libwrap0 (>= 7.6-4~)", "required by socat", "trust  gpg"]);
    let document = site.run(&["explain", "libwrap0", "--json"], &[]).must(ExitCode::Ok).document();
    let because = serde_json::json!(["socat Depends libwrap0 (>= 7.6-4~)", "required by socat"]);
    assert_eq!(document["items"][0]["because"], because);
    assert_eq!(site.lab.server.requests().len(), asked, "somebody was asked");
}

#[test]
fn a_package_that_no_repository_has_is_refused_with_similar_names() {
    let site = Site::new("  system: {debs: [sokat]}\n");
    let ended = site.run(&["lock"], &SETUP[4..]).must(ExitCode::NoSource);
    assert_contains(&ended.err, &["packages of debian-12 linux/amd64", "no repository has sokat; close to it: socat"]);
}
