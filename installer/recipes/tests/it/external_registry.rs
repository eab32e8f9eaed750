//! The user's own registry: how nodes pull from it, and that nothing else is done to it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::common::{Site, text};
use insta::{Settings, assert_snapshot};
use kubexm_plan::op::{Content, Op};
use kubexm_plan::{Plan, lint};
use kubexm_recipes::sample;
use kubexm_spec::cluster::{Cluster, Registry, RegistryAuth, RegistryKind, SecretSource};
use kubexm_spec::depot::DepotConfig;

const ADDRESS: &str = "r.example.com:8443";

fn cluster(change: impl FnOnce(&mut Registry)) -> Cluster {
    let mut registry = Registry {
        private_registry: Some(format!("{ADDRESS}/mirror")),
        ca_file: Some(PathBuf::from("/root/ca.crt")),
        ..Registry::of(RegistryKind::External)
    };
    let password = SecretSource::Env("REGISTRY_PASSWORD".to_owned()).into();
    registry.auths = BTreeMap::from([(ADDRESS.to_owned(), RegistryAuth { username: "robot$a".to_owned(), password })]);
    change(&mut registry);
    Cluster { registry, ..sample::fleet(1, 1) }
}

fn plan(change: impl FnOnce(&mut Registry)) -> Plan {
    let plan = Site::of(cluster(change)).create().unwrap();
    let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    plan
}

fn hosts(folder: &str) -> String {
    format!("/etc/containerd/certs.d/{folder}/hosts.toml")
}

#[test]
fn nodes_pull_below_the_prefix_with_the_login_and_the_ca_and_from_nowhere_else() {
    let plan = plan(|_| ());
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/external-registry");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("hosts-toml", text(&plan, &hosts("registry.k8s.io")));
        assert_snapshot!("hosts-toml-own", text(&plan, &hosts(ADDRESS)));
        assert_snapshot!("hosts-toml-default", text(&plan, &hosts("_default")));
    });
    for step in &plan.steps {
        for op in &step.ops {
            let Op::File(file) = op else { continue };
            let secret = match &file.content {
                Content::Filled { slots, .. } => slots.iter().any(|slot| plan.slots[slot].secret()),
                Content::Slot { slot } => plan.slots[slot].secret(),
                Content::Text { .. } => false,
            };
            assert!(!secret || file.mode == 0o600, "{} {:o}", file.path, file.mode);
        }
    }
}

#[test]
fn one_folder_may_have_the_images_of_all_upstream_hosts() {
    let plan = plan(|registry| registry.namespace_override = Some("all".to_owned()));
    for host in ["registry.k8s.io", "ghcr.io"] {
        let written = text(&plan, &hosts(host));
        assert!(written.contains("https://r.example.com:8443/v2/mirror/all\""), "{written}");
    }
}

#[test]
fn an_insecure_one_is_asked_over_https_first_and_over_http_then() {
    let plan = plan(|registry| (registry.insecure, registry.ca_file) = (true, None));
    insta::assert_snapshot!(text(&plan, &hosts("registry.k8s.io")));
}

#[test]
fn without_login_and_ca_neither_is_written() {
    let plan = plan(|registry| {
        registry.auths.clear();
        registry.ca_file = None;
    });
    let written = text(&plan, &hosts("registry.k8s.io"));
    assert!(!written.contains("header") && !written.contains("ca ="), "{written}");
    assert!(!plan.render().contains("external-registry"));
}

/// The depot is there for programs and packages; images do not come to its host.
#[test]
fn the_depot_has_no_images_and_demands_a_login_only_where_its_own_is_named() {
    let of =
        |plan: &Plan| -> DepotConfig { serde_json::from_str(text(plan, "/etc/kubexm/depot/config.json")).unwrap() };
    let plan_without = plan(|_| ());
    let config = of(&plan_without);
    assert!(config.images.is_empty() && config.login.is_none());
    let image = Site::new().manifest.artifacts.iter().find(|one| one.key.to_string() == "image/pause").unwrap().clone();
    let stored = plan_without.steps.iter().flat_map(|step| &step.ops).any(|op| match op {
        Op::Blobs(blobs) => blobs.blobs.contains_key(&image.digest),
        _ => false,
    });
    assert!(!stored, "images of the user's registry are copied to a host");
    let both = plan(|registry| {
        let own = registry.auths[ADDRESS].clone();
        registry.auths.insert("registry.demo.kubexm.internal".to_owned(), own);
    });
    assert_eq!(of(&both).login.as_deref(), Some("/etc/kubexm/depot/htpasswd"));
    // The two logins are two slots.
    assert!(text(&both, &hosts("registry.k8s.io")).contains("{{slot:external-registry-login}}"));
}
