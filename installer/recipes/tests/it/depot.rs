//! What the depot serves of the bundle's packages, and what it tells hosts that use it by hand.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::process::Command;

use crate::common::{Site, text};
use insta::{Settings, assert_snapshot};
use kubexm_plan::op::{Blobs, Content, Op};
use kubexm_plan::{Plan, lint};
use kubexm_recipes::packages::RepositoryFile;
use kubexm_recipes::{PlanContext, sample};
use kubexm_spec::cluster::{Listen, RegistryAuth, RegistryKind, SecretSource};
use kubexm_spec::depot::{DepotConfig, Packages};
use kubexm_spec::{ArtifactKey, Cluster, Digest};

fn cluster() -> Cluster {
    let mut cluster = sample::fleet(1, 1);
    cluster.bundle.os = vec!["debian-12".to_owned(), "rocky-9".to_owned()];
    cluster
}

fn site(cluster: Cluster) -> Site {
    let mut site = Site::of(cluster);
    let file = |path: &str, text: &str| RepositoryFile { path: path.to_owned(), text: text.to_owned() };
    for set in &mut site.packages.sets {
        set.repository.push(file("kubexm.asc", "the site's key\n"));
    }
    let rpm = site.packages.sets.iter_mut().find(|set| set.set.os == "rocky-9").unwrap();
    rpm.repository.push(file("vendor.asc", "the vendor's keys\n"));
    site
}

fn plan(site: &Site) -> Plan {
    let plan = site.create().unwrap();
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    plan
}

fn config(plan: &Plan) -> DepotConfig {
    serde_json::from_str(text(plan, "/etc/kubexm/depot/config.json")).unwrap()
}

fn served(plan: &Plan) -> Packages {
    config(plan).packages.unwrap()
}

/// A file of a repository, as the plan puts it where the depot looks for it.
fn file<'p>(plan: &'p Plan, repository: &str, path: &str) -> &'p str {
    let served = served(plan);
    let digest = served.repositories[repository].metadata[path];
    let text = text(plan, &format!("{}/blobs/sha256/{}", served.metadata, digest.hex()));
    assert_eq!(Digest::of(text), digest);
    text
}

#[test]
fn every_system_of_the_bundle_is_served_though_no_host_lacks_anything() {
    let site = site(cluster());
    let plan = plan(&site);
    let served = served(&plan);
    assert_eq!(served.url, "https://10.77.0.11:5443/packages");
    assert_eq!(served.repositories.keys().collect::<Vec<_>>(), ["debian-12-amd64", "rocky-9-amd64"]);
    let deb = &served.repositories["debian-12-amd64"];
    assert!(deb.packages.contains_key("socat_1.0-1_amd64.deb"), "{deb:#?}");
    assert!(served.repositories["rocky-9-amd64"].packages.contains_key("socat-1.0-1.x86_64.rpm"));
    // All that is served by name is in the store of the depot's host.
    let store = plan.steps.iter().find(|step| step.id.0 == "node1/store.fill").unwrap();
    let Op::Blobs(blobs) = &store.ops[0] else { panic!("{store:#?}") };
    let packages = served.repositories.values().flat_map(|one| one.packages.values());
    assert_eq!(packages.filter(|digest| !blobs.blobs.contains_key(digest)).count(), 0);
    // What a node's folder has is served as it is, but for what names that folder.
    assert_eq!(file(&plan, "debian-12-amd64", "InRelease"), "signed\n");
    assert_ne!(file(&plan, "debian-12-amd64", "kubexm.list"), "where it is\n");
}

#[test]
fn readme_and_client_configuration_name_the_depots_key_and_ca() {
    let plan = plan(&site(cluster()));
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/depot");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for (of, repository) in [("deb", "debian-12-amd64"), ("rpm", "rocky-9-amd64")] {
            assert_snapshot!(format!("readme-{of}"), file(&plan, repository, "README"));
        }
        assert_snapshot!("kubexm.list", file(&plan, "debian-12-amd64", "kubexm.list"));
        assert_snapshot!("kubexm.conf", file(&plan, "debian-12-amd64", "kubexm.conf"));
        assert_snapshot!("kubexm.repo", file(&plan, "rocky-9-amd64", "kubexm.repo"));
    });
}

#[test]
fn unsigned_packages_are_checked_by_the_signed_index_and_no_key_is_imported() {
    let mut site = site(cluster());
    let rpm = site.packages.sets.iter_mut().find(|set| set.set.os == "rocky-9").unwrap();
    rpm.repository.retain(|file| file.path != "vendor.asc");
    let plan = plan(&site);
    let repo = file(&plan, "rocky-9-amd64", "kubexm.repo");
    assert!(repo.contains("\ngpgcheck=0\nrepo_gpgcheck=1\n"), "{repo}");
    assert!(!file(&plan, "rocky-9-amd64", "README").contains("vendor.asc"));
}

#[test]
fn packages_are_served_beside_every_registry_and_by_the_depots_own_port() {
    for kind in [RegistryKind::Embedded, RegistryKind::Registry, RegistryKind::None] {
        let mut cluster = cluster();
        cluster.registry.kind = kind;
        if kind == RegistryKind::Registry {
            cluster.registry.port = 5000;
        }
        let plan = plan(&site(cluster));
        assert_eq!(served(&plan).url, "https://10.77.0.11:5443/packages", "{kind:?}");
    }
}

#[test]
fn a_bundle_without_packages_leaves_the_depot_as_it_was() {
    let plan = plan(&Site::of(sample::fleet(1, 1)));
    assert_eq!(config(&plan).packages, None);
    assert!(!text(&plan, "/etc/kubexm/depot/config.json").contains("packages"));
    assert!(!plan.render().contains("/var/lib/kubexm/depot"));
}

/// A depot serves one state of a repository until its configuration names the next.
#[test]
fn unchanged_repositories_stay_and_the_depot_is_reloaded_last() {
    let (before, mut later) = (site(cluster()), site(cluster()));
    later.packages.sets[0].repository[0].text = "signed anew\n".to_owned();
    let written = |plan: &Plan| {
        let step = plan.steps.iter().find(|step| step.id.0 == "node1/depot.serve").unwrap();
        let paths =
            step.ops.iter().filter_map(|op| if let Op::File(file) = op { Some(file.path.clone()) } else { None });
        paths.collect::<Vec<_>>()
    };
    let (before, later) = (written(&plan(&before)), written(&plan(&later)));
    assert_eq!(later.iter().filter(|path| !before.contains(path)).count(), 1, "{before:#?} {later:#?}");
    let reported = later.iter().position(|path| path == "/etc/kubexm/depot/config.json").unwrap();
    let last = later.iter().rposition(|path| path.starts_with("/var/lib/kubexm/depot/")).unwrap();
    assert!(last < reported, "{later:#?}");
}

/// The depot of the cluster is not touched for a worker's sake, nor are the texts of its repositories carried along.
#[test]
fn a_join_leaves_the_repositories_where_they_are() {
    let mut site = site(cluster());
    site.join_all_but("node2");
    let plan =
        kubexm_recipes::add_node(&site.cx(), &kubexm_plan::ClusterFacts::default(), &["node2".to_owned()]).unwrap();
    let files = plan.steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
        Op::File(file) if file.path.starts_with("/var/lib/kubexm/depot") => Some(&file.content),
        _ => None,
    });
    assert_eq!(files.collect::<Vec<&Content>>(), Vec::<&Content>::new());
    assert!(plan.texts.values().all(|text| text != "the vendor's keys\n"));
}

#[test]
fn the_depot_is_not_root_and_gets_its_key_from_systemd() {
    let unit = |change: &dyn Fn(&mut Site)| {
        let mut site = Site::of(sample::cluster());
        change(&mut site);
        text(&plan(&site), "/etc/systemd/system/kubexm-depot.service").to_owned()
    };
    let new = unit(&|_| ());
    for line in [
        "DynamicUser=yes",
        "LoadCredential=tls.key:/etc/kubexm/depot/tls.key",
        "CapabilityBoundingSet=",
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        "ExecReload=/usr/local/bin/kubexm-install depot --check --without-tls --config /etc/kubexm/depot/config.json",
    ] {
        assert!(new.lines().any(|one| one == line), "{line} is not in\n{new}");
    }
    assert!(!new.contains("AmbientCapabilities") && !new.contains("ExecStartPre"), "{new}");
    // A systemd without LoadCredential=, and one whose version is not known.
    for version in [None, Some(239), Some(246)] {
        let old = unit(&|site| site.facts().systemd = version);
        assert!(old.contains("DynamicUser=yes\n") && old.contains("--tls /run/kubexm-depot\n"), "{old}");
        assert!(old.contains("\nExecStartPre=+/bin/sh -c") && !old.contains("\nLoadCredential="), "{old}");
    }
    let low = unit(&|site| site.cluster.registry.port = 443);
    assert!(low.contains("AmbientCapabilities=CAP_NET_BIND_SERVICE\n"), "{low}");
}

/// What systemd before 247 runs before the depot: only root can give a file away, so the owner is looked at as root alone.
#[test]
fn the_copy_of_the_key_is_the_depots_alone_where_systemd_passes_none() {
    const USER: u32 = 54_321;
    for login in [false, true] {
        let mut cluster = sample::cluster();
        if login {
            let password = SecretSource::Env("PASSWORD".to_owned()).into();
            let auth = RegistryAuth { username: "puller".to_owned(), password };
            cluster.registry.auths = [("registry.demo.kubexm.internal".to_owned(), auth)].into();
        }
        let mut site = Site::of(cluster);
        site.facts().systemd = Some(239);
        let plan = plan(&site);
        let unit = text(&plan, "/etc/systemd/system/kubexm-depot.service");
        let line = unit.lines().find_map(|line| line.strip_prefix("ExecStartPre=+/bin/sh -c '")).unwrap();
        let command = line.strip_suffix('\'').unwrap();

        let folder = tempfile::tempdir().unwrap();
        let [own, run] = ["etc", "run"].map(|name| folder.path().join(name));
        let is_root = rustix::process::geteuid().is_root();
        for (path, mode) in [(&own, 0o755), (&run, 0o700)] {
            fs::create_dir(path).unwrap();
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        if is_root {
            chown(&run, Some(USER), Some(USER)).unwrap();
        }
        let names: Vec<&str> = ["tls.crt", "tls.key", "htpasswd"].into_iter().take(if login { 3 } else { 2 }).collect();
        for name in &names {
            fs::write(own.join(name), name).unwrap();
            fs::set_permissions(own.join(name), Permissions::from_mode(0o644)).unwrap();
        }
        let command = command.replace("/etc/kubexm/depot", own.to_str().unwrap());
        let command = command.replace("/run/kubexm-depot", run.to_str().unwrap());
        assert!(Command::new("/bin/sh").args(["-c", &command]).status().unwrap().success(), "{command}");
        let mut copied: Vec<_> = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        copied.sort();
        assert_eq!(copied.len(), names.len(), "{copied:?}");
        for name in names {
            let copy = run.join(name);
            let found = copy.metadata().unwrap();
            assert_eq!((found.mode() & 0o7777, fs::read_to_string(&copy).unwrap().as_str()), (0o600, name));
            assert!(!is_root || (found.uid(), found.gid()) == (USER, USER), "{name}: {found:?}");
        }
    }
}

/// Its key is a file of root in a folder that others may enter, and another key is a restart: systemd passes it at the start.
#[test]
fn only_the_key_of_the_depot_is_secret() {
    let plan = plan(&Site::of(sample::cluster()));
    let step = plan.steps.iter().find(|step| step.id.0 == "node1/depot.serve").unwrap();
    let modes: Vec<(&str, u32)> = step
        .ops
        .iter()
        .filter_map(|op| match op {
            Op::Dir(dir) => Some((dir.path.as_str(), dir.mode)),
            Op::File(file) => Some((file.path.as_str(), file.mode)),
            _ => None,
        })
        .collect();
    assert!(modes.contains(&("/etc/kubexm/depot", 0o755)) && modes.contains(&("/etc/kubexm/depot/config.json", 0o644)));
    let secret: Vec<_> = modes.iter().filter(|(_, mode)| mode & 0o004 == 0).collect();
    assert_eq!(secret, [&("/etc/kubexm/depot/tls.key", 0o600)]);
    let unit = step.ops.iter().find_map(|op| if let Op::Unit(unit) = op { Some(unit) } else { None }).unwrap();
    assert!(unit.loaded.iter().any(|path| path == "/etc/kubexm/depot/tls.key"), "{unit:?}");
    assert_eq!(unit.reloaded, ["/etc/kubexm/depot/config.json"]);
}

#[test]
fn the_depot_listens_on_every_address_or_on_the_nodes() {
    let listens = |listen| {
        let mut cluster = sample::cluster();
        cluster.registry.listen = listen;
        config(&plan(&Site::of(cluster))).listen.to_string()
    };
    assert_eq!(listens(Listen::AllAddresses), "0.0.0.0:5443");
    assert_eq!(listens(Listen::NodeAddress), "10.77.0.11:5443");
}

#[test]
fn hosts_serve_each_other_what_the_bundle_brings_and_no_material_of_the_user() {
    let shared = |site: &Site| -> Vec<(String, Blobs)> {
        let steps = plan(site).steps.into_iter();
        let ops = steps.flat_map(|step| step.ops.into_iter().map(move |op| (step.host.clone(), op)));
        let blobs = ops.filter_map(|(host, op)| match op {
            Op::Blobs(blobs) if blobs.shared_at.is_some() => Some((host, blobs)),
            _ => None,
        });
        blobs.collect()
    };
    let mut several = site(cluster());
    let material = several.manifest.artifacts.iter().find(|artifact| matches!(artifact.key, ArtifactKey::Binary(_)));
    let mut material = material.unwrap().clone();
    material.key = ArtifactKey::Material("audit.yaml".to_owned());
    material.platform = None;
    material.blobs.truncate(1);
    material.blobs[0].digest = Digest::of("a policy of the user");
    several.manifest.artifacts.push(material);
    let found = shared(&several);
    let at: Vec<String> = found.iter().filter_map(|(_, blobs)| Some(blobs.shared_at?.to_string())).collect();
    assert_eq!(at, ["10.77.0.11:5444", "10.77.0.12:5444"]);
    assert!(found.iter().all(|(_, op)| !op.blobs.contains_key(&Digest::of("a policy of the user"))));

    several.cluster.registry.port = 5444;
    assert_eq!(shared(&several), [], "the depot has that port");
    several.cluster.registry.port = 5443;
    let fill = |site: &Site| plan(site).steps.iter().find(|step| step.id.0 == "node2/store.fill").unwrap().timeout_s;
    let beside_others = fill(&several);
    several.cluster.registry.fan_out = false;
    assert_eq!(shared(&several), []);
    // Without the others it has all the time that it would have had.
    assert!(beside_others > fill(&several) + 100, "{beside_others}");
    assert_eq!(shared(&Site::of(sample::fleet(1, 0))), [], "one host has nobody to take from it");
}

/// The depot goes on answering for a bundle when the cluster has got another one.
#[test]
fn what_a_bundle_has_is_also_in_a_file_of_its_own() {
    let site = site(cluster());
    let of = |digest: Digest| {
        let plan = kubexm_recipes::create(&PlanContext { manifest_digest: digest, ..site.cx() }).unwrap();
        let own = format!("/etc/kubexm/depot/bundles/v1.34.4-{}.json", &digest.hex()[..16]);
        assert_eq!(text(&plan, &own), text(&plan, "/etc/kubexm/depot/config.json"));
        own
    };
    assert_ne!(of(Digest::of("one")), of(Digest::of("another")));
}
