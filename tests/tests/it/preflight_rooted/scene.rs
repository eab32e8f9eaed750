//! Two good hosts in directories, and what a row changes of them.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use kubexm_manifests::{Catalogue, require};
use kubexm_ops::fake::seed;
use kubexm_ops::{Machine, dispatch, facts};
use kubexm_plan::Facts;
use kubexm_plan::facts::DataFolders;
use kubexm_plan::op::Unit;
use kubexm_recipes::preflight::Finding;
use kubexm_recipes::{PlanContext, preflight, sample};
use kubexm_spec::cluster::{
    EtcdKind, ExternalKind, InternalKind, LoadBalancerMode, Nfs, OpenEbs, Registry, RegistryKind,
};
use kubexm_spec::{ArtifactKey, Cluster, Digest};
use kubexm_tests::laws::scratch;

/// Where the fake system keeps what a test sets.
const FAKE: &str = "/run/kubexm-double";

/// A machine whose file system is a directory.
pub struct Host {
    machine: Machine,
    _folder: tempfile::TempDir,
}

impl Host {
    /// A Debian 12 at 10.77.0.`last` with nothing to complain of: the fake's own, without what its swap brings.
    pub fn good(name: &str, last: u8) -> Self {
        let folder = scratch();
        let host = Self { machine: seed(folder.path()).expect("a host"), _folder: folder };
        host.put("/proc/sys/kernel/hostname", &format!("{name}\n"));
        host.put("/etc/hosts", &format!("127.0.0.1\tlocalhost\n127.0.1.1\t{name}\n"));
        host.put("/etc/machine-id", &format!("0123456789abcdef0123456789abcd{last:02x}\n"));
        host.put("/sys/class/dmi/id/product_uuid", &format!("00000000-0000-0000-0000-0000000000{last:02x}\n"));
        host.put("/etc/resolv.conf", "nameserver 10.77.0.1\n");
        host.put("/etc/fstab", "UUID=aaaa / ext4 errors=remount-ro 0 1\n");
        host.put("/proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
        host.route("10.77.0.0", "255.255.255.0");
        host.interface(&format!("10.77.0.{last}/24"), &format!("52:54:00:00:00:{last:02x}"));
        host.unit("systemd-timesyncd.service", true);
        host
    }

    /// The machine, with its fake system.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub fn put(&self, path: &str, text: &str) {
        let real = self.machine.path(path);
        std::fs::create_dir_all(real.parent().expect("a parent")).expect("folders");
        std::fs::write(real, text).expect("a file");
    }

    /// A folder with this mode.
    pub fn folder(&self, path: &str, mode: u32) {
        let real = self.machine.path(path);
        std::fs::create_dir_all(&real).expect("folders");
        std::fs::set_permissions(real, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.machine.path(path)).expect("a file")
    }

    pub fn remove(&self, path: &str) {
        let real = self.machine.path(path);
        let removed = if real.is_dir() { std::fs::remove_dir_all(&real) } else { std::fs::remove_file(&real) };
        removed.expect("was there");
    }

    /// A file that the fake system looks at.
    pub fn fake(&self, name: &str, text: &str) {
        self.put(&format!("{FAKE}/{name}"), text);
    }

    /// One interface, eth0, with this address.
    pub fn interface(&self, address: &str, mac: &str) {
        let all = serde_json::json!([{"name": "eth0", "addresses": [address], "mac": mac, "mtu": 1500}]);
        self.fake("interfaces.json", &all.to_string());
    }

    /// A default route, and one to this network; numbers as the kernel writes them (proc_pid_net(5)).
    pub fn route(&self, network: &str, mask: &str) {
        let word = |text: &str| {
            let address: std::net::Ipv4Addr = text.parse().expect("an address");
            format!("{:08X}", u32::from_ne_bytes(address.octets()))
        };
        let (network, mask) = (word(network), word(mask));
        self.put(
            "/proc/net/route",
            &format!(
                "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                 eth0\t00000000\t01004D0A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                 eth0\t{network}\t00000000\t0001\t0\t0\t0\t{mask}\t0\t0\t0\n"
            ),
        );
    }

    /// An installed service, running or not.
    pub fn unit(&self, name: &str, running: bool) {
        let text = "[Service]\nExecStart=/usr/sbin/ip\n[Install]\nWantedBy=multi-user.target\n";
        self.put(&format!("/lib/systemd/system/{name}"), text);
        let unit = Unit {
            name: name.to_owned(),
            enabled: running,
            running: Some(running),
            loaded: Vec::new(),
            reloaded: Vec::new(),
        };
        dispatch::converge(&unit.into(), &self.machine).expect("a unit");
    }

    /// A process with a socket for each inode.
    pub fn process(&self, pid: u32, name: &str, sockets: &[u64]) {
        self.put(&format!("/proc/{pid}/comm"), &format!("{name}\n"));
        let folder = self.machine.path(format!("/proc/{pid}/fd"));
        std::fs::create_dir_all(&folder).expect("folders");
        for inode in sockets {
            let link = folder.join(inode.to_string());
            std::os::unix::fs::symlink(Path::new(&format!("socket:[{inode}]")), link).expect("a link");
        }
    }

    /// A socket that listens (or, for `udp*`, is bound), as `/proc/net/<table>` shows it.
    pub fn listener(&self, table: &str, port: u16, inode: u64) {
        let state = if table.starts_with("udp") { "07" } else { "0A" };
        let address = if table.ends_with('6') { "0".repeat(32) } else { "0".repeat(8) };
        let file = format!("/proc/net/{table}");
        let line = format!("   9: {address}:{port:04X} {address}:0000 {state} 0:0 00:0 0 0 0 {inode} 1\n");
        self.put(&file, &(self.read(&file) + &line));
    }
}

/// A cluster of two hosts, node1 (all roles) and node2 (worker), before preflight looks.
pub struct Scene {
    pub cluster: Cluster,
    hosts: BTreeMap<String, Host>,
    /// Offset and round trip in milliseconds: the link measures them, no machine can know its own.
    pub clocks: BTreeMap<&'static str, (i64, u64)>,
    /// Not in the bundle.
    pub lost: Vec<ArtifactKey>,
    /// `--set-aside` was given.
    pub set_aside: bool,
}

impl Scene {
    pub fn good() -> Self {
        let mut cluster = sample::cluster();
        cluster.hosts.push(sample::host("node2", 12));
        cluster.role_groups.worker.push("node2".to_owned());
        let hosts = [("node1", 11), ("node2", 12)].map(|(name, last)| (name.to_owned(), Host::good(name, last)));
        Self { cluster, hosts: BTreeMap::from(hosts), clocks: BTreeMap::new(), lost: Vec::new(), set_aside: false }
    }

    /// Hosts of their own for etcd (`etcd1`) and the load balancer (`lb1`, `lb2`), to which node2 is a worker as before.
    pub fn with_roles(&mut self) {
        let cluster = &mut self.cluster;
        for (name, last) in [("etcd1", 13), ("lb1", 14), ("lb2", 15)] {
            cluster.hosts.push(sample::host(name, last));
            self.hosts.insert(name.to_owned(), Host::good(name, last));
        }
        cluster.etcd.kind = EtcdKind::Kubexm;
        cluster.role_groups.etcd = vec!["etcd1".to_owned()];
        cluster.role_groups.load_balancer = vec!["lb1".to_owned(), "lb2".to_owned()];
        cluster.load_balancer.mode = LoadBalancerMode::External {
            kind: ExternalKind::KubexmKh,
            vip: [10, 77, 0, 100].into(),
            port: 6443,
            interface: None,
            virtual_router_id: None,
        };
    }

    /// Harbor on a host of its own (`store`).
    pub fn with_harbor(&mut self) {
        self.cluster.hosts.push(sample::host("store", 16));
        self.hosts.insert("store".to_owned(), Host::good("store", 16));
        self.cluster.role_groups.registry = vec!["store".to_owned()];
        self.cluster.registry = Registry::of(RegistryKind::Harbor);
    }

    /// Volumes of an NFS server, which both hosts can mount.
    pub fn with_nfs(&mut self) {
        let (server, path) = ("10.77.0.9".to_owned(), "/srv".to_owned());
        self.cluster.storage.nfs = Some(Nfs { server, path, mount_options: Vec::new(), default_class: false });
        for host in [self.node1(), self.node2()] {
            host.put("/usr/sbin/mount.nfs", "");
        }
    }

    /// Volumes in this folder of each node.
    pub fn with_volumes(&mut self, folder: &str) {
        self.cluster.storage.open_ebs = Some(OpenEbs { base_path: folder.to_owned(), default_class: true });
    }

    /// A proxy before the API server, on node2.
    pub fn with_proxy(&mut self, kind: InternalKind) {
        self.cluster.role_groups.worker = vec!["node2".to_owned()];
        self.cluster.load_balancer.mode = LoadBalancerMode::Internal { kind, vip: None, port: 6443, interface: None };
    }

    /// A host by its name.
    pub fn host(&self, name: &str) -> &Host {
        &self.hosts[name]
    }

    /// The control plane.
    pub fn node1(&self) -> &Host {
        &self.hosts["node1"]
    }

    /// The worker.
    pub fn node2(&self) -> &Host {
        &self.hosts["node2"]
    }

    pub fn kubernetes(&mut self) -> &mut kubexm_spec::cluster::Kubernetes {
        self.cluster.kubernetes.as_mut().expect("a cluster with Kubernetes")
    }

    /// Another name for node2, in cluster.yaml and on the machine.
    pub fn rename_node2(&mut self, name: &str) {
        let host = self.hosts.remove("node2").expect("node2");
        host.put("/proc/sys/kernel/hostname", name);
        host.put("/etc/hosts", "127.0.0.1 localhost\n");
        self.hosts.insert(name.to_owned(), host);
        name.clone_into(&mut self.cluster.hosts[1].name);
        name.clone_into(&mut self.cluster.role_groups.worker[1]);
    }

    /// What the real facts say of a host.
    pub fn facts(&self, name: &str) -> Facts {
        let folders = DataFolders::of(&self.cluster, self.cluster.roles(name));
        facts::collect_with(&self.hosts[name].machine, name, &folders).expect("facts")
    }

    /// What preflight says of what the real facts say.
    pub fn findings(&self) -> Vec<Finding> {
        let all = Catalogue::embedded();
        let packages = sample::packages(&self.cluster, &all).expect("packages");
        let mut manifest = sample::manifest(&self.cluster, &all).expect("a manifest");
        manifest.artifacts.retain(|artifact| !self.lost.contains(&artifact.key));
        let catalogue = all.used_by(&require(&self.cluster, &all).expect("requirements"));
        let mut facts: BTreeMap<String, Facts> =
            self.hosts.keys().map(|name| (name.clone(), self.facts(name))).collect();
        for (name, (offset, trip)) in &self.clocks {
            let facts = facts.get_mut(*name).expect("a host of the scene");
            (facts.clock_offset_ms, facts.round_trip_ms) = (*offset, *trip);
        }
        preflight(&PlanContext {
            materials: &kubexm_recipes::sample::materials(&self.cluster),
            charts: &kubexm_recipes::sample::charts(&self.cluster, &manifest),
            bundle_record: None,
            cluster: &self.cluster,
            cluster_id: None,
            cluster_digest: Digest::of("cluster.yaml"),
            manifest: &manifest,
            manifest_digest: Digest::of("manifest.json"),
            catalogue: &catalogue,
            facts: &facts,
            set_aside: self.set_aside,
            without_fan_out: false,
            packages: &packages,
            sealing: None,
            from_backup: None,
            signed: None,
        })
    }
}
