//! etcd as a service of its own: plans, preflight, and what the pipelines do with its hosts.

use insta::{Settings, assert_snapshot};
use kubexm_plan::facts::StateFolder;
use kubexm_plan::op::{Op, Unit};
use kubexm_plan::{Plan, Probe, Step, StepId, etcd, lint};
use kubexm_recipes::preflight::Severity;
use kubexm_recipes::{RecipeError, preflight, sample};
use kubexm_spec::cluster::{Cluster, EtcdKind};
use serde_json::Value;

use crate::common::{Site, text};

fn step<'p>(plan: &'p Plan, id: &str) -> &'p Step {
    plan.step(&StepId(id.to_owned())).unwrap_or_else(|| panic!("the plan has no {id}"))
}

/// Two control planes, one of which has a member, and two hosts that are members alone.
fn shared() -> Cluster {
    let mut cluster = sample::with_etcd();
    cluster.role_groups.etcd = ["node1", "etcd1", "etcd2"].map(str::to_owned).to_vec();
    cluster.hosts.retain(|host| host.name != "etcd3");
    cluster
}

#[test]
fn three_hosts_of_etcd_alone() {
    let mut cluster = sample::with_etcd();
    cluster.etcd.quota = Some(4 << 30);
    cluster.etcd.snapshots.keep = Some(7);
    let plan = Site::of(cluster).checked();
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/etcd");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("kubeadm", text(&plan, "/etc/kubexm/kubeadm.yaml"));
        assert_snapshot!("config", text(&plan, etcd::CONFIG));
        assert_snapshot!("unit", text(&plan, "/etc/systemd/system/kubexm-etcd.service"));
    });
}

#[test]
fn a_folder_for_its_data_is_kubeadms_and_known_to_acts_on_control_planes_alone() {
    let mut cluster = sample::fleet(2, 1);
    cluster.etcd.data_dir = "/data/etcd".to_owned();
    let plan = Site::of(cluster).checked();
    assert!(text(&plan, "/etc/kubexm/kubeadm.yaml").contains("dataDir: /data/etcd"));
    for (id, is_plane) in [("node1/control-plane.init", true), ("node2/join.node", true), ("node3/join.node", false)] {
        let ops = &step(&plan, id).ops;
        let folders = |path: &str| ops.iter().any(|op| matches!(op, Op::StateDir(dir) if dir.path == path));
        assert_eq!((folders("/data/etcd"), folders("/var/lib/etcd")), (is_plane, !is_plane), "{id}");
        assert_eq!(ops.iter().any(|op| matches!(op, Op::File(file) if file.path == etcd::DATA_DIR)), is_plane, "{id}");
    }
}

#[test]
fn a_member_that_runs_keeps_its_folder() {
    for (formed, wanted, refused) in [
        ("demo\n3.6.5\n", "/var/lib/etcd", false),
        ("demo\n3.6.5\n", "/data/etcd", true),
        ("demo\n3.6.5\n/data/etcd\n", "/data/etcd", false),
        ("demo\n3.6.5\n/data/etcd\n", "/var/lib/etcd", true),
    ] {
        let mut cluster = sample::with_etcd();
        cluster.etcd.data_dir = wanted.to_owned();
        let mut site = Site::of(cluster);
        site.facts.get_mut("etcd1").unwrap().etcd_formed = Some(formed.to_owned());
        let found: Vec<String> = preflight(&site.cx()).iter().map(ToString::to_string).collect();
        let named =
            found.iter().any(|finding| finding.contains("etcd1: unchanged: found a member of etcd with its data in"));
        assert_eq!(named, refused, "{formed:?} {wanted}: {found:#?}");
    }
}

#[test]
fn hosts_of_etcd_alone_get_neither_kubelet_nor_runtime_nor_images() {
    let plan = Site::of(sample::with_etcd()).checked();
    let steps: Vec<&str> =
        plan.steps.iter().filter(|step| step.host == "etcd1").map(|step| step.id.0.as_str()).collect();
    let wanted = ["etcd.formed", "etcd.serve", "os.hosts", "os.hostname", "os.stamp", "store.fill", "store.trust"];
    for name in wanted {
        assert!(steps.iter().any(|id| id.ends_with(name)), "{name} of {steps:?}");
    }
    let kubernetes =
        ["kubernetes.", "runtime.", "containerd.", "images.", "join.", "control-plane.", "os.swap", "check."];
    assert!(!steps.iter().any(|id| kubernetes.iter().any(|name| id.contains(name))), "{steps:?}");
    let units = plan.steps.iter().filter(|step| step.host == "etcd1").flat_map(|step| &step.ops);
    let units: Vec<&str> =
        units.filter_map(|op| if let Op::Unit(Unit { name, .. }) = op { Some(name.as_str()) } else { None }).collect();
    assert_eq!(units, [etcd::UNIT]);
    // Nothing of Kubernetes is copied to them either.
    let store = step(&plan, "etcd1/store.fill");
    let Some(Op::Blobs(blobs)) = store.ops.iter().find(|op| matches!(op, Op::Blobs(_))) else { panic!("no blobs") };
    assert_eq!(blobs.blobs.len(), 1);
}

#[test]
fn members_start_together_and_the_first_control_plane_after_all_of_them() {
    let plan = Site::of(sample::with_etcd()).checked();
    for host in ["etcd1", "etcd2", "etcd3"] {
        let serve = step(&plan, &format!("{host}/etcd.serve"));
        // Another one's store may take longer: nobody waits for a leader before all have started.
        assert!(serve.probe.is_none());
        assert!(serve.after.iter().all(|id| id.0.starts_with(host)), "{:?}", serve.after);
        let formed = step(&plan, &format!("{host}/etcd.formed"));
        assert_eq!(formed.after.len(), 3, "{:?}", formed.after);
        let Some(Probe::EtcdMembersHealthy { members, .. }) = formed.probe.as_ref().map(|timed| &timed.probe) else {
            panic!("they are not asked")
        };
        assert_eq!(members["etcd2"], "https://10.77.0.22:2379");
    }
    let order = lint::Order::of(&plan);
    let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap();
    for host in ["etcd1", "etcd2", "etcd3"] {
        assert!(order.is_earlier(at(&format!("{host}/etcd.formed")), at("node1/control-plane.init")));
    }
    assert!(order.is_earlier(at("node1/etcd.client"), at("node1/control-plane.init")));
}

#[test]
fn members_of_a_cluster_that_runs_are_changed_one_after_the_other() {
    let plan = running("3.6.5").checked();
    let order = lint::Order::of(&plan);
    let at = |host: &str| plan.steps.iter().position(|step| step.id.0 == format!("{host}/etcd.serve")).unwrap();
    assert!(order.is_earlier(at("etcd1"), at("etcd2")) && order.is_earlier(at("etcd2"), at("etcd3")));
    assert!(step(&plan, "etcd1/etcd.serve").probe.is_some(), "it is not waited for before the next");
}

#[test]
fn a_member_on_a_control_plane_has_its_tools_once_and_its_data_is_not_kubeadms() {
    let plan = Site::of(shared()).checked();
    let of_node = || plan.steps.iter().filter(|step| step.host == "node1");
    assert!(of_node().any(|step| step.id.0 == "node1/etcd.serve"));
    assert!(!of_node().any(|step| step.id.0 == "node1/kubernetes.etcd"), "the tools come with the program");
    let of_kubeadm = step(&plan, "node1/control-plane.init").ops.iter();
    assert!(!of_kubeadm.filter(|op| matches!(op, Op::StateDir(_))).any(|op| op.to_string().contains("/var/lib/etcd")));
    // A control plane without a member has the tools, for snapshots.
    let plan = Site::of(sample::with_etcd()).checked();
    step(&plan, "node1/kubernetes.etcd");
}

#[test]
fn all_control_planes_have_the_same_certificate_and_each_member_its_own() {
    let mut cluster = sample::with_etcd();
    cluster.role_groups.control_plane.push("node2".to_owned());
    cluster.role_groups.worker.clear();
    let plan = Site::of(cluster).checked();
    let slots =
        |id: &str| step(&plan, id).ops.iter().flat_map(Op::slots).map(|slot| slot.0.clone()).collect::<Vec<_>>();
    assert_eq!(slots("node1/etcd.client"), slots("node2/etcd.client"));
    assert!(slots("etcd1/etcd.serve").contains(&"etcd-server-etcd1".to_owned()));
    assert!(!slots("etcd2/etcd.serve").iter().any(|slot| slot.contains("etcd1")));
    let of = |id: &str| serde_json::to_value(&plan.slots[&kubexm_plan::SlotName(id.to_owned())]).unwrap();
    let server: Value = of("etcd-server-etcd1");
    assert_eq!(server["sans"], serde_json::json!(["etcd1", "10.77.0.21", "localhost", "127.0.0.1"]));
    assert_eq!((&server["authority"], &server["client"]), (&"etcd".into(), &true.into()));
    assert_eq!(of("etcd-client-apiserver")["commonName"], "kube-apiserver-etcd-client");
}

#[test]
fn two_members_are_refused_and_four_warned_about() {
    let found = |number: usize| {
        let mut cluster = sample::with_etcd();
        cluster.hosts.push(sample::host("etcd4", 24));
        cluster.role_groups.etcd = ["etcd1", "etcd2", "etcd3", "etcd4"].map(str::to_owned)[..number].to_vec();
        let found = preflight(&Site::of(cluster).cx());
        found
            .into_iter()
            .filter(|one| one.check == "control-planes")
            .map(|one| (one.severity, one.found))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(1), []);
    assert_eq!(found(2), [(Severity::Fail, "two members of etcd (etcd1, etcd2)".to_owned())]);
    assert_eq!(found(3), []);
    assert_eq!(found(4), [(Severity::Warn, "4 members of etcd".to_owned())]);
}

#[test]
fn files_in_the_data_folder_of_a_host_of_etcd_alone_are_refused_or_moved_aside() {
    let mut site = Site::of(sample::with_etcd());
    let theirs = |path: &str| StateFolder { path: path.to_owned(), files: 1, first: vec!["x".to_owned()], moved: None };
    // What Kubernetes alone would need there is nobody's concern.
    site.facts.get_mut("etcd2").unwrap().state_folders = vec![theirs("/var/lib/etcd"), theirs("/var/lib/kubelet")];
    let found: Vec<String> = preflight(&site.cx()).into_iter().map(|one| one.found).collect();
    assert_eq!(found, ["1 file in /var/lib/etcd (x)"]);
    site.set_aside = true;
    assert_eq!(preflight(&site.cx()), []);
    let plan = site.checked();
    assert!(step(&plan, "etcd2/os.set-aside").title.ends_with("/var/lib/etcd"));
}

#[test]
fn an_etcd_that_changes_its_owner_or_its_members_is_refused_while_the_cluster_runs() {
    let mut before = Site::of(sample::with_etcd());
    let made = text(&before.create().unwrap(), "/etc/kubexm/kubeadm.yaml").to_owned();
    before.join_all_but("");
    let version =
        before.cx().program(kubexm_spec::Program::Etcd, before.cx().manifest.platforms[0]).unwrap().version.clone();
    for (_, facts) in before.facts.iter_mut().filter(|(name, _)| name.starts_with("etcd")) {
        facts.etcd_formed = Some(format!("id\n{version}\n"));
    }
    let digest = kubexm_spec::Digest::of(&made);
    before.facts().kubeadm_config = Some(digest);
    before.facts().kubeadm_config_text = Some(made);
    assert_eq!(preflight(&before.cx()), []);
    let refused = |change: &dyn Fn(&mut Cluster)| {
        let mut cluster = before.cluster.clone();
        change(&mut cluster);
        let site = Site { facts: before.facts.clone(), ..Site::of(cluster) };
        preflight(&site.cx()).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let fewer = refused(&|cluster| cluster.role_groups.etcd.truncate(1));
    assert!(fewer.contains("etcd.external.endpoints: "), "{fewer}");
    let stacked = refused(&|cluster| {
        cluster.etcd.kind = EtcdKind::Kubeadm;
        cluster.role_groups.etcd = cluster.role_groups.control_plane.clone();
    });
    assert!(stacked.contains("etcd.local.dataDir: unset -> /var/lib/etcd"), "{stacked}");
}

/// A cluster that runs, whose members have etcd `version`.
fn running(version: &str) -> Site {
    let mut site = Site::of(sample::with_etcd());
    site.join_all_but("");
    for (name, facts) in &mut site.facts {
        facts.joined = name.starts_with("node");
        facts.etcd_formed = name.starts_with("etcd").then(|| format!("id\n{version}\n"));
    }
    site
}

fn findings(site: &Site) -> Vec<String> {
    preflight(&site.cx()).into_iter().map(|one| format!("{}: {}", one.host.unwrap_or_default(), one.found)).collect()
}

#[test]
fn members_that_run_get_a_later_patch_and_neither_an_older_etcd_nor_another_minor() {
    let site = running("3.6.5");
    let (program, platform) = (kubexm_spec::Program::Etcd, site.cx().manifest.platforms[0]);
    let carried = site.cx().program(program, platform).unwrap().version.clone();
    let [major, minor, patch] = *carried.split('.').map(|number| number.parse::<u32>().unwrap()).collect::<Vec<_>>()
    else {
        panic!("{carried}")
    };
    for version in [carried.clone(), format!("{major}.{minor}.{}", patch - 1)] {
        assert_eq!(findings(&running(&version)), Vec::<String>::new(), "{version}");
    }
    for version in [format!("{major}.{minor}.{}", patch + 1), format!("{major}.{}.30", minor - 1)] {
        let found = findings(&running(&version));
        let text = format!("etcd2: a member of etcd {version}, and the bundle has etcd {carried}");
        assert!(found.len() == 3 && found.contains(&text), "{found:?}");
    }
}

#[test]
fn a_member_that_is_not_there_any_more_is_refused_while_the_cluster_runs() {
    let mut site = running("3.6.5");
    let version =
        site.cx().program(kubexm_spec::Program::Etcd, site.cx().manifest.platforms[0]).unwrap().version.clone();
    site = running(&version);
    site.facts.get_mut("etcd2").unwrap().etcd_formed = None;
    assert_eq!(findings(&site), ["etcd2: no member of etcd, and the cluster runs with one there"]);
    // A create that was interrupted before the first control plane goes on.
    site.facts.values_mut().for_each(|facts| facts.joined = false);
    assert_eq!(findings(&site), Vec::<String>::new());
}

#[test]
fn a_member_that_a_reset_has_not_reached_is_no_part_of_the_next_cluster() {
    let mut site = running("3.6.5");
    for facts in site.facts.values_mut().filter(|facts| facts.etcd_formed.is_none()) {
        (facts.stamp, facts.joined) = (None, false);
    }
    for host in ["etcd2", "etcd3"] {
        let facts = site.facts.get_mut(host).unwrap();
        (facts.stamp, facts.etcd_formed) = (None, None);
    }
    let found = findings(&site);
    assert!(
        found.iter().any(|one| one.starts_with("etcd1: a node of a cluster named") && one.contains("belongs to none")),
        "{found:?}"
    );
}

#[test]
fn the_port_of_metrics_is_asked_for_as_well() {
    let mut site = Site::of(sample::with_etcd());
    let theirs = kubexm_plan::facts::Listener {
        port: 2381,
        protocol: "tcp".to_owned(),
        process: Some("exporter".to_owned()),
        pid: None,
        ours: false,
    };
    site.facts.get_mut("etcd3").unwrap().listeners.push(theirs);
    let found = findings(&site);
    assert!(matches!(found.as_slice(), [one] if one.starts_with("etcd3: ") && one.contains("2381")), "{found:?}");
}

#[test]
fn a_restore_stops_every_api_server_and_member_before_any_member_gets_data() {
    let mut site = Site::of(shared());
    site.cluster.role_groups.control_plane.push("node2".to_owned());
    site.join_all_but("");
    for (name, facts) in &mut site.facts {
        facts.joined = name.starts_with("node");
        facts.etcd_formed = ["node1", "etcd1", "etcd2"].contains(&name.as_str()).then(|| "id\n3.6.5\n".to_owned());
    }
    let made = text(&site.create().unwrap(), "/etc/kubexm/kubeadm.yaml").to_owned();
    site.facts().kubeadm_config_text = Some(made);
    let cx = kubexm_recipes::RestoreContext {
        cluster: &site.cluster,
        cluster_digest: kubexm_spec::Digest::of("yaml"),
        facts: &site.facts,
        archive: kubexm_plan::backup::Archive { sha256: kubexm_spec::Digest::of("archive"), size: 7 },
        snapshot: 7,
        id: "1",
    };
    let plan = kubexm_recipes::restore(&cx).unwrap();
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/etcd");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| assert_snapshot!("restore", plan.render()));
    let order = lint::Order::of(&plan);
    let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap_or_else(|| panic!("no {id}"));
    for member in ["node1", "etcd1", "etcd2"] {
        for stopped in ["node1", "node2", "etcd1", "etcd2"] {
            assert!(order.is_earlier(at(&format!("{stopped}/restore.stop")), at(&format!("{member}/restore.data"))));
            assert!(order.is_earlier(at(&format!("{member}/restore.data")), at(&format!("{stopped}/restore.start"))));
        }
    }
    assert!(!plan.steps.iter().any(|step| step.id.0 == "node2/restore.data"), "it has no member");
    // Nobody knows what a host has that does not say so.
    let mut lost = site.facts.clone();
    lost.get_mut("etcd2").unwrap().etcd_formed = None;
    lost.remove("etcd1");
    let error = kubexm_recipes::restore(&kubexm_recipes::RestoreContext { facts: &lost, ..cx.clone() });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("etcd2 has no member of this cluster's etcd any more"), "{error}");
    assert!(error.contains("etcd1 was not reached"), "{error}");
    let mut slow = site.facts.clone();
    slow.get_mut("etcd2").unwrap().clock_offset_ms = -86_400_000;
    let error = kubexm_recipes::restore(&kubexm_recipes::RestoreContext { facts: &slow, ..cx.clone() });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("etcd2: its clock is 1 d 0 h behind this machine's"), "{error}");
    // A restore does nothing on a worker: what its root says of its clock stops none.
    let mut worker = site.facts.clone();
    worker.insert("w1".to_owned(), slow["etcd2"].clone());
    assert!(kubexm_recipes::restore(&kubexm_recipes::RestoreContext { facts: &worker, ..cx.clone() }).is_ok());
    // A member that is left out would come back with the old data.
    let refused = |change: &dyn Fn(&mut Cluster)| {
        let mut cluster = site.cluster.clone();
        change(&mut cluster);
        let refused = kubexm_recipes::restore(&kubexm_recipes::RestoreContext { cluster: &cluster, ..cx.clone() });
        refused.unwrap_err().to_string()
    };
    let fewer = refused(&|cluster| cluster.role_groups.etcd.truncate(1));
    let says = "the cluster was made with https://10.77.0.11:2379, https://10.77.0.21:2379, https://10.77.0.22:2379 as its etcd";
    assert!(fewer.contains(says) && fewer.contains("cluster.yaml has https://10.77.0.11:2379:"), "{fewer}");
    let theirs = refused(&|cluster| cluster.etcd.kind = EtcdKind::External);
    assert!(theirs.contains("the restore of a cluster with spec.etcd.type external"), "{theirs}");
    let stacked = refused(&|cluster| cluster.etcd.kind = EtcdKind::Kubeadm);
    assert!(stacked.contains("cluster.yaml has kubeadm's own members"), "{stacked}");
    assert!(stacked.contains("node1 has a member of an etcd of kubexm's own"), "{stacked}");
}

fn of_the_user(prefix: &str) -> Cluster {
    let yaml = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  hosts:\n  - {{name: node1, address: \
         10.77.0.11}}\n  - {{name: node2, address: 10.77.0.12}}\n  roleGroups: {{master: [node1, node2]}}\n  kubernetes: {{version: \
         v1.34.4}}\n  runtime: {{version: 2.2.7}}\n  etcd: {{type: external, externalConfig: {{endpoints: [\"https://10.0.0.5:2379\", \
         \"https://10.0.0.6:2379\"], caFile: etcd/ca.crt, certFile: etcd/client.crt, keyFrom: {{env: KEY}}, prefix: {prefix}}}}}\n"
    );
    kubexm_spec::cluster::parse(&yaml).unwrap()
}

#[test]
fn an_etcd_of_the_users_is_given_to_the_api_servers_and_nothing_of_it_is_installed() {
    let site = Site::of(of_the_user("/demo/registry"));
    let plan = site.checked();
    let kubeadm = text(&plan, "/etc/kubexm/kubeadm.yaml");
    for part in [
        "external:",
        "- https://10.0.0.5:2379",
        "caFile: /etc/kubexm/etcd-client/ca.crt",
        "name: etcd-prefix",
        "value: /demo/registry",
    ] {
        assert!(kubeadm.contains(part), "{part}: {kubeadm}");
    }
    assert!(!kubeadm.contains("local:"), "{kubeadm}");
    assert_eq!(text(&plan, etcd::CLIENT_CA), site.materials["etcd/ca.crt"]);
    for host in ["node1", "node2"] {
        let client = step(&plan, &format!("{host}/etcd.client"));
        assert!(client.ops.iter().flat_map(Op::slots).eq([&kubexm_plan::SlotName("external-etcd-key".to_owned())]));
        let Some(Probe::EtcdMembersHealthy { members, unnamed: true, .. }) =
            client.probe.as_ref().map(|timed| &timed.probe)
        else {
            panic!("it is not asked")
        };
        assert_eq!(members.len(), 2);
    }
    // For snapshots.
    step(&plan, "node1/kubernetes.etcd");
    let others = ["etcd.serve", "etcd.formed"];
    assert!(!plan.steps.iter().any(|step| others.iter().any(|name| step.id.0.ends_with(name))));
    let usual = Site::of(of_the_user("/registry")).checked();
    assert!(!text(&usual, "/etc/kubexm/kubeadm.yaml").contains("etcd-prefix"));
}

#[test]
fn keys_are_the_clusters_own_below_the_same_prefix_of_the_same_etcd_alone() {
    use kubexm_recipes::modules::etcd_client::is_keyspace;
    let site = Site::of(of_the_user("/demo/registry"));
    let plan = site.checked();
    let external = site.cluster.etcd.external.clone().unwrap();
    let kept = text(&plan, etcd::KEYSPACE);
    assert!(is_keyspace(kept, &external));
    let of = |change: &dyn Fn(&mut kubexm_spec::cluster::ExternalEtcd)| {
        let mut external = external.clone();
        change(&mut external);
        is_keyspace(kept, &external)
    };
    assert!(!of(&|external| external.prefix = "/registry".to_owned()));
    assert!(!of(&|external| external.endpoints = vec!["https://10.0.0.9:2379".to_owned()]));
    assert!(of(&|external| external.endpoints.truncate(1)));
}

#[test]
fn a_prefix_among_the_flags_is_refused_where_preflight_would_look_below_another_one() {
    let mut cluster = of_the_user("/demo/registry");
    let flags = &mut cluster.kubernetes.as_mut().unwrap().api_server_args;
    flags.insert("etcd-prefix".to_owned(), "/other".into());
    let error = Site::of(cluster).create().unwrap_err().to_string();
    assert!(error.contains("apiServerArgs.etcd-prefix"), "{error}");
}

#[test]
fn an_etcd_without_tls_is_refused_by_name() {
    let mut cluster = of_the_user("/registry");
    cluster.etcd.external.as_mut().unwrap().endpoints[1] = "http://10.0.0.6:2379".to_owned();
    let error = Site::of(cluster).create().unwrap_err();
    assert!(
        matches!(&error, RecipeError::NotInstalled { .. }) && error.to_string().contains("http://10.0.0.6:2379"),
        "{error}"
    );
}
