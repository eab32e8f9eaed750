//! Pods in virtual machines: an add-on of the catalogue that the runtime and the kernel have to know of.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::{Site, addon, text};
use kubexm_plan::op::{HelmRelease, Op};
use kubexm_plan::{ClusterFacts, Plan};
use kubexm_recipes::{Recipe, addons_apply, config, sample};
use kubexm_spec::cluster::{Addon, AddonKind, AddonSource, Cluster, RegistryKind, Runtime, RuntimeKind, Selinux};
use kubexm_spec::{ArtifactKey, Program};
use serde_json::{Value, json};

const IMPORT: &str = "/etc/containerd/conf.d/*kata-deploy*.toml";

pub fn machines() -> Addon {
    let source = AddonSource::Catalogue { name: "kata-deploy".to_owned(), version: None };
    Addon { source, ..addon("vm", AddonKind::Helm) }
}

fn cluster(kind: RuntimeKind) -> Cluster {
    let mut cluster = sample::fleet(1, 1);
    cluster.runtime = Runtime { kind, ..Runtime::default() };
    cluster.addons = vec![machines()];
    cluster
}

fn modules(plan: &Plan) -> Vec<String> {
    let ops = plan.steps.iter().flat_map(|step| &step.ops);
    ops.flat_map(|op| if let Op::KernelModule(modules) = op { modules.modules.clone() } else { Vec::new() }).collect()
}

/// What of a host goes with the cluster, among these.
fn goes(plan: &Plan, host: &str) -> Vec<String> {
    let ops = plan.steps.iter().filter(|step| step.host == host).flat_map(|step| &step.ops);
    let paths = ops.filter_map(|op| if let Op::StateDir(state) = op { Some(state.path.clone()) } else { None });
    paths.filter(|path| ["kata", "conf.d"].iter().any(|word| path.contains(word))).collect()
}

fn imports(cluster: Cluster) -> Vec<String> {
    let plan = Site::of(cluster).checked();
    let config: toml::Table = text(&plan, "/etc/containerd/config.toml").parse().unwrap();
    let all = config.get("imports").and_then(|all| all.as_array()).cloned().unwrap_or_default();
    all.iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

#[test]
fn drop_ins_of_the_runtime_are_read_and_what_the_add_on_leaves_on_nodes_goes_with_the_cluster() {
    let with = cluster(RuntimeKind::Containerd);
    let plan = Site::of(with.clone()).checked();
    assert_eq!(goes(&plan, "node1"), ["/etc/containerd/conf.d", "/opt/kata"]);
    assert_eq!(goes(&plan, "node2"), ["/etc/containerd/conf.d", "/opt/kata"]);
    for module in ["vhost_net", "vhost_vsock"] {
        assert_eq!(modules(&plan).iter().filter(|one| *one == module).count(), 2, "{module}");
    }
    assert_eq!(imports(with.clone()), [IMPORT]);
    let importing = |all: Value| {
        let mut cluster = with.clone();
        cluster.runtime.extra_config.insert("imports".to_owned(), all);
        imports(cluster)
    };
    assert_eq!(importing(json!(["/etc/own.toml"])), ["/etc/own.toml", IMPORT]);
    assert_eq!(importing(json!([IMPORT])), [IMPORT]);

    let plan = Site::of(cluster(RuntimeKind::CriO)).checked();
    let of_cri_o = ["/etc/crio/crio.conf.d/99-kata-deploy", "/etc/crio/crio.conf.d/100-debug", "/opt/kata"];
    assert_eq!(goes(&plan, "node2"), of_cri_o);

    let mut others = sample::fleet(1, 1);
    others.addons = vec![addon("kata-deploy", AddonKind::Helm)];
    let plan = Site::of(others.clone()).checked();
    assert!(!modules(&plan).iter().any(|one| one.starts_with("vhost")) && goes(&plan, "node1").is_empty());
    assert!(imports(others).is_empty(), "a chart of one's own is one's own business");
}

#[test]
fn a_cluster_in_which_it_cannot_work_is_refused() {
    let refused = |cluster: Cluster, containerd: &str| {
        let mut site = Site::of(cluster);
        for artifact in &mut site.manifest.artifacts {
            if artifact.key == ArtifactKey::Binary(Program::Containerd) {
                artifact.version = containerd.to_owned();
            }
        }
        let all: Vec<String> = config::check(&site.cx()).iter().map(ToString::to_string).collect();
        all.join("\n")
    };
    let newer = |cluster| refused(cluster, "2.2.0");
    for (said, what) in [
        (newer(cluster(RuntimeKind::Docker)), "kata-deploy with spec.runtime.type docker"),
        (refused(cluster(RuntimeKind::Containerd), "2.1.9"), "kata-deploy with containerd 2.1.9"),
        (refused(cluster(RuntimeKind::Containerd), "1.7.35"), "kata-deploy with containerd 1.7.35"),
    ] {
        assert!(said.contains(what) && said.contains("containerd 2.2 or later, or cri-o"), "{said}");
    }
    let mut without = cluster(RuntimeKind::Containerd);
    without.registry.kind = RegistryKind::None;
    assert!(newer(without).contains("kata-deploy with no registry"));
    let mut confined = cluster(RuntimeKind::Containerd);
    confined.system.selinux = Selinux::Confine;
    assert!(newer(confined).contains("kata-deploy with spec.system.selinux: confine"));
    assert_eq!(newer(cluster(RuntimeKind::Containerd)), "");
    let mut other = cluster(RuntimeKind::Containerd);
    other.addons = vec![addon("web", AddonKind::Helm)];
    assert_eq!(refused(other, "2.1.9"), "");
}

/// A cluster with these add-ons, and what is known of one that has run with `before`.
fn running(before: &[Addon], now: &[Addon]) -> (Site, ClusterFacts) {
    let of = |addons: &[Addon]| Cluster { addons: addons.to_vec(), ..cluster(RuntimeKind::Containerd) };
    let (_, was) = Site::running(&of(before));
    (Site::running(&of(now)).0, was)
}

#[test]
fn runtimes_of_a_cluster_know_it_before_it_comes_and_until_it_has_gone() {
    let (web, vm) = (addon("web", AddonKind::Helm), machines());
    let (site, was) = running(std::slice::from_ref(&web), &[web.clone(), vm.clone()]);
    let error = addons_apply(&site.cx(), &was, &[]).unwrap_err().to_string();
    assert!(error.contains("kata-deploy") && error.contains("kubexm-install create"), "{error}");
    addons_apply(&site.cx(), &was, &["web".to_owned()]).unwrap();
    let plan = Recipe::Create.plan(&site.cx(), &was).unwrap().0;
    let release = |plan: &Plan| -> HelmRelease {
        let mut ops = plan.steps.iter().flat_map(|step| &step.ops);
        ops.find_map(|op| if let Op::HelmRelease(one) = op { (one.name == "vm").then(|| one.clone()) } else { None })
            .unwrap()
    };
    let helm = release(&plan);
    assert_eq!(helm.wait_s, 1800);
    let input: Value = serde_json::from_str(&plan.texts[&helm.input]).unwrap();
    assert_eq!(input["values"]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(input["values"]["snapshotter"], json!({"setup": []}));
    assert_eq!(input["values"]["shims"], json!({"disableAll": true, "qemu": {"enabled": true}}));

    let (site, was) = running(&[web.clone(), vm], &[web]);
    let error = Recipe::Create.plan(&site.cx(), &was).unwrap_err().to_string();
    assert!(error.contains("taking out the add-on kata-deploy") && error.contains("addons apply"), "{error}");
    let (plan, _) = addons_apply(&site.cx(), &was, &[]).unwrap();
    assert!(plan.steps.iter().any(|step| step.id.0 == "node1/addons.vm.removed"));
}
