//! A login for the cluster's own depot and registry: who demands it, and who has it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::collections::BTreeMap;

use crate::common::{Site, text};
use insta::{Settings, assert_snapshot};
use kubexm_plan::op::{Content, File, Op, Unit};
use kubexm_plan::{LoginForm, Plan, Probe, SlotProvider, lint};
use kubexm_recipes::sample;
use kubexm_spec::cluster::{Cluster, Registry, RegistryAuth, RegistryKind, Runtime, RuntimeKind, SecretSource};

const NAME: &str = "registry.demo.kubexm.internal";

fn cluster(kind: RegistryKind) -> Cluster {
    let password = SecretSource::Env("REGISTRY_PASSWORD".to_owned()).into();
    let auths = BTreeMap::from([(NAME.to_owned(), RegistryAuth { username: "puller".to_owned(), password })]);
    Cluster { registry: Registry { auths, ..Registry::of(kind) }, ..sample::fleet(1, 1) }
}

fn plan(cluster: Cluster) -> Plan {
    checked(Site::of(cluster).create().unwrap())
}

fn checked(plan: Plan) -> Plan {
    let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    plan
}

fn ops<'p>(plan: &'p Plan, step: &str) -> impl Iterator<Item = &'p Op> {
    plan.steps.iter().filter(move |one| one.id.0 == step).flat_map(|step| &step.ops)
}

/// Files with a login, by the step that writes them: path, mode, form.
fn logins(plan: &Plan) -> Vec<(String, String, u32, LoginForm)> {
    let mut found = Vec::new();
    for step in &plan.steps {
        for file in step.ops.iter().filter_map(|op| if let Op::File(file) = op { Some(file) } else { None }) {
            let slots = match &file.content {
                Content::Filled { slots, .. } => slots.clone(),
                Content::Slot { slot } => vec![slot.clone()],
                Content::Text { .. } => Vec::new(),
            };
            for slot in slots {
                if let SlotProvider::RegistryLogin { form, field, username } = &plan.slots[&slot] {
                    assert_eq!(field, &format!("spec.registry.auths.{NAME}.passwordFrom"));
                    assert_eq!(username, "puller");
                    found.push((step.id.0.clone(), file.path.clone(), file.mode, *form));
                }
            }
        }
    }
    found
}

fn unit<'p>(plan: &'p Plan, step: &str) -> &'p Unit {
    ops(plan, step).find_map(|op| if let Op::Unit(unit) = op { Some(unit) } else { None }).unwrap()
}

#[test]
fn servers_get_a_hash_and_clients_a_file_that_only_root_reads() {
    for kind in [RegistryKind::Embedded, RegistryKind::Registry, RegistryKind::None] {
        let plan = plan(cluster(kind));
        let all = logins(&plan);
        assert!(all.iter().all(|(.., mode, _)| *mode == 0o600), "{all:#?}");
        let of = |form| -> Vec<&str> {
            all.iter().filter(|(.., of)| *of == form).map(|(_, path, ..)| path.as_str()).collect()
        };
        let servers = match kind {
            RegistryKind::Registry => vec!["/etc/kubexm/depot/htpasswd", "/etc/kubexm/registry/htpasswd"],
            _ => vec!["/etc/kubexm/depot/htpasswd"],
        };
        assert_eq!(of(LoginForm::Htpasswd), servers, "{kind}");
        let clients = of(LoginForm::Header);
        assert!(clients.contains(&"/etc/kubexm/depot/login") && clients.contains(&"/etc/kubexm/registry-login"));
        // Every file by which containerd finds the registry, on both nodes.
        let mirrors = clients.iter().filter(|path| path.ends_with("/hosts.toml")).count();
        let all_mirrors = plan
            .steps
            .iter()
            .flat_map(|step| &step.ops)
            .filter(|op| matches!(op, Op::File(File { path, .. }) if path.ends_with("/hosts.toml")));
        assert_eq!(mirrors, if kind == RegistryKind::None { 0 } else { all_mirrors.count() }, "{kind}");
    }
}

#[test]
fn who_fetches_blobs_and_who_probes_shows_the_login() {
    let plan = plan(cluster(RegistryKind::Registry));
    let depots = ops(&plan, "node2/store.fill").find_map(|op| match op {
        Op::Blobs(blobs) => blobs.depots.clone(),
        _ => None,
    });
    assert_eq!(depots.unwrap().login.as_deref(), Some("/etc/kubexm/registry-login"));
    let files: Vec<_> =
        logins(&plan).into_iter().filter(|(_, path, ..)| path == "/etc/kubexm/registry-login").collect();
    assert_eq!(files.iter().map(|(step, ..)| step.as_str()).collect::<Vec<_>>(), ["node2/store.trust"]);
    let probe = |id: &str| plan.steps.iter().find(|step| step.id.0 == id).unwrap().probe.clone().unwrap().probe;
    let Probe::Https { login, .. } = probe("node1/depot.serve") else { panic!("no probe") };
    assert_eq!(login.as_deref(), Some("/etc/kubexm/depot/login"));
    let Probe::RegistryServes { login, .. } = probe("node1/registry.serve") else { panic!("no probe") };
    assert_eq!(login.as_deref(), Some("/etc/kubexm/registry/login"));
}

/// systemd passes the login to the depot when it starts, and distribution reads it then.
#[test]
fn another_password_restarts_who_demands_it() {
    let plan = plan(cluster(RegistryKind::Registry));
    for (step, path) in
        [("node1/depot.serve", "/etc/kubexm/depot/htpasswd"), ("node1/registry.serve", "/etc/kubexm/registry/htpasswd")]
    {
        assert!(unit(&plan, step).loaded.iter().any(|one| one == path), "{step}");
    }
    let mut site = Site::of(cluster(RegistryKind::Embedded));
    let new = "\nLoadCredential=htpasswd:/etc/kubexm/depot/htpasswd\n";
    let created = |site: &Site| text(&site.create().unwrap(), "/etc/systemd/system/kubexm-depot.service").to_owned();
    assert!(created(&site).contains(new));
    site.facts().systemd = Some(246);
    let old = created(&site);
    assert!(old.contains("tls.key /etc/kubexm/depot/htpasswd /run/kubexm-depot/ &&") && !old.contains(new), "{old}");
    assert!(old.contains(" /run/kubexm-depot/htpasswd'\n"), "who runs it must be able to read it: {old}");
}

#[test]
fn a_cluster_without_a_login_is_planned_as_before() {
    let mut without = cluster(RegistryKind::Registry);
    without.registry.auths.clear();
    let plan = plan(without);
    assert_eq!(logins(&plan), Vec::new());
    let written = plan.texts.values().any(|text| text.contains("htpasswd") || text.contains("Authorization"));
    assert!(!written && !plan.render().contains("login"));
}

#[test]
fn a_node_that_is_added_gets_the_login_and_the_registry_host_is_left_alone() {
    let mut site = Site::of(cluster(RegistryKind::Embedded));
    site.join_all_but("node2");
    let facts = kubexm_plan::ClusterFacts::default();
    let plan = checked(kubexm_recipes::add_node(&site.cx(), &facts, &["node2".to_owned()]).unwrap());
    let all = logins(&plan);
    assert!(!all.is_empty() && all.iter().all(|(step, ..)| step.starts_with("node2/")), "{all:#?}");
}

#[test]
fn readmes_of_package_repositories_name_the_user_and_no_password_is_served() {
    let mut cluster = cluster(RegistryKind::Embedded);
    cluster.bundle.os = vec!["debian-12".to_owned(), "rocky-9".to_owned()];
    let plan = plan(cluster);
    let readme = |of: &str| {
        let found = plan.texts.values().find(|text| text.contains("To undo it") && text.contains(of));
        found.unwrap_or_else(|| panic!("no README of {of}")).clone()
    };
    golden(|| {
        assert_snapshot!("readme-deb", readme("debian-12"));
        assert_snapshot!("readme-rpm", readme("rocky-9"));
    });
}

#[test]
fn cri_o_has_the_login_in_a_file_of_its_own_that_only_root_reads() {
    let mut cluster = cluster(RegistryKind::Embedded);
    cluster.runtime = Runtime { kind: RuntimeKind::CriO, ..Runtime::default() };
    let plan = plan(cluster);
    let all: Vec<_> = logins(&plan).into_iter().filter(|(.., form)| *form == LoginForm::Auth).collect();
    let of = |host: &str| {
        let file = "/etc/crio/kubexm-auth.json".to_owned();
        (format!("{host}/runtime.mirrors"), file, 0o600, LoginForm::Auth)
    };
    assert_eq!(all, [of("node1"), of("node2")]);
    golden(|| assert_snapshot!("cri-o-auth", text(&plan, "/etc/crio/kubexm-auth.json")));
    assert!(
        text(&plan, "/etc/crio/crio.conf.d/90-kubexm.conf")
            .contains("global_auth_file = \"/etc/crio/kubexm-auth.json\"")
    );
}

#[test]
fn whole_plan_and_what_it_writes() {
    let plan = plan(cluster(RegistryKind::Registry));
    golden(|| {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("hosts-toml", text(&plan, "/etc/containerd/certs.d/registry.k8s.io/hosts.toml"));
        assert_snapshot!("depot-config", text(&plan, "/etc/kubexm/depot/config.json"));
        assert_snapshot!("kubexm-depot", text(&plan, "/etc/systemd/system/kubexm-depot.service"));
        assert_snapshot!("registry-config", text(&plan, "/etc/kubexm/registry/config.yml"));
    });
}

fn golden(check: impl FnOnce()) {
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/login");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(check);
}
