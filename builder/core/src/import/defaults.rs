//! KubeKey's defaults that differ from kubexm's, as data: a field that the file does not set is written out, so that
//! the imported cluster is the one that KubeKey made.
//!
//! Compared with KubeKey 3's source (`cmd/kk/apis/kubekey/v1alpha2/default.go`, `pkg/kubernetes/templates/kubeadm_config.go`,
//! `pkg/etcd/templates/etcd_env.go`, `pkg/bootstrap/os/templates/init_script.go`, `pkg/bootstrap/registry`). Not here is what
//! is the same on both sides: CIDRs, ports, user, DNS domain, 110 pods and a /24 a node, multus off, certificates not
//! renewed, no audit, OpenEBS' folder.

use std::fmt;

use super::source::Place;
use super::yaml::{Map, Yaml};

/// Stands behind what is written for it.
pub const COMMENT: &str = "KubeKey's default";

/// What becomes of fields that a file leaves to KubeKey, where KubeKey's default is another than ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defaults {
    /// They are listed, and our defaults apply.
    #[default]
    Report,
    /// KubeKey's value is written.
    Write,
    /// KubeKey's value stands in a comment at the end, and our defaults apply.
    Comment,
}

/// A default of KubeKey's that a file is silent on.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assumed {
    /// KubeKey's field, or the file of its own where it has none.
    pub field: &'static str,
    /// KubeKey's value.
    pub value: &'static str,
    /// The field of cluster.yaml for it, where there is one.
    pub ours: Option<String>,
    /// Where cluster.yaml says it; none where it was not to be written, or has no field.
    pub written_as: Option<String>,
}

/// A row of the table.
pub(super) struct Row {
    /// KubeKey's field.
    pub(super) field: &'static str,
    /// Its value, in KubeKey's words.
    pub(super) value: &'static str,
    /// Ours below `spec`, and what is written there; a key of ours may have dots in it.
    pub(super) ours: Option<(&'static [&'static str], Ours)>,
    when: When,
}

/// What is written.
#[derive(Clone, Copy)]
pub(super) enum Ours {
    Text(&'static str),
    Number(u64),
    Map(&'static [(&'static str, &'static str)]),
}

/// When KubeKey's default says something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// KubeKey prepares the hosts.
    Prepares,
    /// KubeKey runs etcd (type kubekey).
    OwnEtcd,
    /// kubeProxyConfiguration has no block `iptables` of its own, which would replace KubeKey's.
    OwnIptables,
    /// The kubelet speaks CRI: every runtime but docker before 1.24, which is before our first release.
    Cri,
    /// Hosts have the role registry.
    RegistryRole,
    /// The registry is docker-registry.
    DockerRegistry,
    /// The plugin is calico.
    Calico,
}

const fn row(field: &'static str, value: &'static str, path: &'static [&'static str], ours: Ours, when: When) -> Row {
    Row { field, value, ours: Some((path, ours)), when }
}

const fn no_place(field: &'static str, value: &'static str, when: When) -> Row {
    Row { field, value, ours: None, when }
}

macro_rules! kubelet {
    ($field:literal, $value:literal, $ours:expr, $when:expr) => {
        row(
            concat!("spec.kubernetes.kubeletConfiguration.", $field),
            $value,
            &["kubernetes", "kubelet", $field],
            $ours,
            $when,
        )
    };
}

const RESERVED: Ours = Ours::Map(&[("cpu", "200m"), ("memory", "250Mi")]);

#[rustfmt::skip] // A row is a line.
/// The table. Rows on one field of ours come in the order in which KubeKey decides.
pub(super) const ROWS: &[Row] = &[
    row("init_script.go", "firewalld and ufw are stopped", &["system", "firewall"], Ours::Text("off"), When::Prepares),
    row("init_script.go", "SELinux is off", &["system", "selinux"], Ours::Text("permissive"), When::Prepares),
    no_place("init_script.go (sysctl.conf)", "fs.aio-max-nr = 262144, fs.inotify.max_user_instances = 524288, fs.inotify.max_user_watches = 524288, fs.pipe-max-size = 4194304", When::Prepares),
    no_place("init_script.go (sysctl.conf)", "kernel.hung_task_timeout_secs = 5, kernel.pid_max = 65535, kernel.watchdog_thresh = 5, vm.max_map_count = 262144, vm.overcommit_memory = 0, vm.swappiness = 0", When::Prepares),
    no_place("init_script.go (sysctl.conf)", "net.core: netdev_max_backlog = 65535, rmem_max = 33554432, wmem_max = 33554432, somaxconn = 32768", When::Prepares),
    no_place("init_script.go (sysctl.conf)", "net.ipv4: ip_local_reserved_ports = 30000-32767, neigh.default.gc_thresh1 to 3 = 512, 2048, 4096, tcp_keepalive_intvl = 30, tcp_keepalive_probes = 10, tcp_keepalive_time = 600, tcp_max_orphans = 65535, tcp_max_syn_backlog = 1048576, tcp_max_tw_buckets = 1048576, tcp_retries2 = 15, udp_rmem_min = 131072, udp_wmem_min = 131072", When::Prepares),
    no_place("init_script.go (sysctl.conf)", "net.ipv4.conf.all and default: arp_accept = 1, arp_ignore = 1, rp_filter = 0; net.ipv6.conf: disable_ipv6 = 0, all.forwarding = 1; net.bridge.bridge-nf-call-arptables = 1", When::Prepares),
    no_place("init_script.go (limits.conf)", "for everybody, soft and hard: nofile 1048576, nproc 65536, memlock unlimited", When::Prepares),
    no_place("spec.kubernetes.version", "of its release, v1.23 in KubeKey 3", When::Always),
    row("spec.kubernetes.clusterName", "cluster.local", &["kubernetes", "clusterName"], Ours::Text("cluster.local"), When::Always),
    row("spec.kubernetes.proxyMode", "ipvs", &["kubernetes", "proxyMode"], Ours::Text("ipvs"), When::Always),
    row("spec.kubernetes.nodelocaldns", "true", &["kubernetes", "nodelocaldns", "address"], Ours::Text("169.254.25.10"), When::Always),
    row("spec.kubernetes.controllerManagerArgs", "bind-address=0.0.0.0", &["kubernetes", "controllerManagerArgs", "bind-address"], Ours::Text("0.0.0.0"), When::Always),
    row("spec.kubernetes.controllerManagerArgs", "cluster-signing-duration=87600h", &["kubernetes", "controllerManagerArgs", "cluster-signing-duration"], Ours::Text("87600h"), When::Always),
    row("spec.kubernetes.schedulerArgs", "bind-address=0.0.0.0", &["kubernetes", "schedulerArgs", "bind-address"], Ours::Text("0.0.0.0"), When::Always),
    row("spec.kubernetes.podPidsLimit", "10000", &["kubernetes", "kubelet", "podPidsLimit"], Ours::Number(10_000), When::Always),
    kubelet!("kubeReserved", "{cpu: 200m, memory: 250Mi}", RESERVED, When::Always),
    kubelet!("systemReserved", "{cpu: 200m, memory: 250Mi}", RESERVED, When::Always),
    kubelet!("evictionHard", "{memory.available: 5%, pid.available: 10%}", Ours::Map(&[("memory.available", "5%"), ("pid.available", "10%")]), When::Always),
    kubelet!("evictionSoft", "{memory.available: 10%}", Ours::Map(&[("memory.available", "10%")]), When::Always),
    kubelet!("evictionSoftGracePeriod", "{memory.available: 2m}", Ours::Map(&[("memory.available", "2m")]), When::Always),
    kubelet!("evictionMaxPodGracePeriod", "120", Ours::Number(120), When::Always),
    kubelet!("evictionPressureTransitionPeriod", "30s", Ours::Text("30s"), When::Always),
    kubelet!("containerLogMaxSize", "5Mi", Ours::Text("5Mi"), When::Cri),
    kubelet!("containerLogMaxFiles", "3", Ours::Number(3), When::Cri),
    row("spec.kubernetes.kubeProxyConfiguration.iptables", "{minSyncPeriod: 0s}", &["kubernetes", "kubeProxy", "iptables", "minSyncPeriod"], Ours::Text("0s"), When::OwnIptables),
    row("spec.etcd.type", "kubekey", &["etcd", "type"], Ours::Text("kubexm"), When::Always),
    row("spec.etcd.snapshotCount", "10000", &["etcd", "snapshots", "count"], Ours::Number(10_000), When::OwnEtcd),
    row("spec.etcd.backupPeriod", "1440 (every day)", &["etcd", "backup", "schedule"], Ours::Text("daily"), When::OwnEtcd),
    row("spec.etcd.backupDir", "/var/backups/kube_etcd", &["etcd", "backup", "dir"], Ours::Text("/var/backups/kube_etcd"), When::OwnEtcd),
    row("spec.etcd.keepBackupNumber", "5", &["etcd", "backup", "keep"], Ours::Number(5), When::OwnEtcd),
    no_place("spec.etcd.heartbeatInterval", "250 ms (etcd's own: 100)", When::OwnEtcd),
    no_place("spec.etcd.electionTimeout", "5000 ms (etcd's own: 1000)", When::OwnEtcd),
    no_place("spec.etcd.autoCompactionRetention", "8 hours (etcd's own: none)", When::OwnEtcd),
    row("spec.kubernetes.containerManager", "docker", &["runtime", "type"], Ours::Text("docker"), When::Always),
    row("spec.network.plugin", "calico", &["network", "plugin"], Ours::Text("calico"), When::Always),
    no_place("spec.network.calico.ipipMode", "Always, by its own manifest (here: spec.network.options.encapsulation, VXLAN by default)", When::Calico),
    row("spec.controlPlaneEndpoint.domain", "lb.kubesphere.local", &["loadBalancer", "domain"], Ours::Text("lb.kubesphere.local"), When::Always),
    row("spec.registry.type", "docker-registry", &["registry", "type"], Ours::Text("registry"), When::RegistryRole),
    row("spec.registry.privateRegistry", "dockerhub.kubekey.local", &["registry", "privateRegistry"], Ours::Text("dockerhub.kubekey.local"), When::RegistryRole),
    row("spec.registry.port", "443", &["registry", "port"], Ours::Number(443), When::DockerRegistry),
];

/// Writes KubeKey's defaults for fields that the file does not set.
pub(super) fn apply(root: &Place<'_>, spec: &mut Map) -> Vec<Assumed> {
    let mut assumed = Vec::new();
    for row in ROWS.iter().filter(|row| !is_said(root, row)) {
        if !row.when.holds(root, spec) {
            continue;
        }
        let field_of_ours = row.ours.map(|(path, _)| format!("spec.{}", path.join(".")));
        let written_as = match row.ours {
            Some((path, _)) if spec.holds(path) => continue,
            Some((path, ours)) => {
                spec.add(path, ours.yaml(), COMMENT);
                if !spec.holds(path) {
                    continue;
                }
                field_of_ours.clone()
            }
            None => None,
        };
        assumed.push(Assumed { field: row.field, value: row.value, ours: field_of_ours, written_as });
    }
    assumed
}

/// Those that have a field of cluster.yaml and are not written, as comments.
pub fn comments(assumed: &[Assumed]) -> String {
    let mut text = String::from(
        "\n# KubeKey's defaults that differ from kubexm's, of fields that its file leaves out; none of them applies here:\n",
    );
    for one in assumed.iter().filter(|one| one.written_as.is_none()) {
        let row = ROWS.iter().find(|row| row.field == one.field && row.value == one.value);
        if let Some(path) = &one.ours {
            let value = row.and_then(|row| row.ours).map_or_else(|| one.value.to_owned(), |(_, ours)| ours.to_string());
            text.push_str(&format!("# {path}: {value}\n"));
        }
    }
    text
}

impl fmt::Display for Ours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Map(fields) => {
                let all: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                write!(f, "{{{}}}", all.join(", "))
            }
        }
    }
}

/// Whether the file sets the field itself, carried over or reported. Flags are looked for one by one, among ours.
fn is_said(root: &Place<'_>, row: &Row) -> bool {
    let names: Vec<&str> = row.field.split('.').collect();
    let flags = names.last().is_some_and(|name| name.ends_with("Args"));
    !flags && root.at(&names).is_some_and(|at| !at.is_zero())
}

impl When {
    fn holds(self, root: &Place<'_>, spec: &Map) -> bool {
        let word = |path: &[&str; 2]| match spec.get(path[0]) {
            Some(Yaml::Map(map)) => map.get(path[1]).cloned(),
            _ => None,
        };
        let is = |path: &[&str; 2], text: &str| word(path) == Some(Yaml::Text(text.to_owned()));
        match self {
            Self::Always | Self::Cri => true,
            Self::Prepares => word(&["system", "skipConfigureOS"]) != Some(Yaml::Bool(true)),
            Self::OwnEtcd => is(&["etcd", "type"], "kubexm"),
            Self::OwnIptables => root.at(&["spec", "kubernetes", "kubeProxyConfiguration", "iptables"]).is_none(),
            Self::RegistryRole => {
                root.at(&["spec", "roleGroups", "registry"]).is_some() && !is(&["registry", "type"], "external")
            }
            Self::DockerRegistry => is(&["registry", "type"], "registry"),
            Self::Calico => is(&["network", "plugin"], "calico"),
        }
    }
}

impl Ours {
    pub(super) fn yaml(self) -> Yaml {
        match self {
            Self::Text(text) => text.into(),
            Self::Number(number) => number.into(),
            Self::Map(fields) => {
                let mut map = Map::default();
                fields.iter().for_each(|(name, value)| map.put(name, *value));
                map.into()
            }
        }
    }
}
