//! Hosts of one cluster that hosts join and leave, with the real ops on directories.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::Host;
use kubexm_ops::fake::RootedSystem;
use kubexm_ops::{Machine, OpError, dispatch, provide};
use kubexm_plan::op::{KubeadmInit, KubeadmJoin, KubeadmReset, Op};
use kubexm_plan::{SlotName, SlotProvider};
use kubexm_spec::Digest;
use serde_json::Value;

pub(crate) const SOCKET: &str = "unix:///run/containerd/containerd.sock";

/// Hosts of one cluster; the first is its control plane.
pub(crate) struct Fleet {
    cluster: tempfile::TempDir,
    pub(crate) hosts: Vec<Host>,
    pub(crate) systems: Vec<Arc<RootedSystem>>,
}

impl Fleet {
    pub(crate) fn of(count: usize) -> Self {
        let mut fleet = Self { cluster: tempfile::tempdir().expect("a folder"), hosts: vec![], systems: vec![] };
        for number in 1..=count {
            let mut host = Host::fresh();
            host.ready_for_init();
            host.put("/etc/kubexm/kubeadm.yaml", kubeadm(number));
            let address =
                format!("[{{\"name\":\"eth0\",\"addresses\":[\"10.0.0.{number}/24\"],\"mac\":\"02::{number}\"}}]");
            host.put("/run/kubexm-double/interfaces.json", interfaces(&address));
            let system = Arc::new(RootedSystem::new(host.machine.root()));
            system.share(fleet.cluster.path()).expect("one cluster");
            host.text(&join(number, false));
            host.text(&join(number, true));
            fleet.hosts.push(host);
            fleet.systems.push(system);
        }
        fleet
    }

    pub(crate) fn with_init(count: usize) -> Self {
        let fleet = Self::of(count);
        dispatch::converge(&init(), &fleet.hosts[0].machine).expect("init");
        fleet
    }

    /// The host with what a join reads.
    pub(crate) fn ready(&self, number: usize) -> Machine {
        let first = &self.hosts[0].machine;
        let host = || "node1".to_owned();
        let make = |provider| provide::value(&provider, first).expect("a slot's value");
        self.hosts[number - 1].machine.with_slots(BTreeMap::from([
            (slot("token"), make(SlotProvider::JoinToken { host: host() })),
            (slot("hash"), make(SlotProvider::CaCertHash { host: host() })),
            (slot("key"), make(SlotProvider::UploadKey { host: host() })),
        ]))
    }

    /// Puts an image into a host's runtime.
    pub(crate) fn load(&self, host: usize, reference: &str) {
        let registry = serde_json::json!({reference: format!("sha256:{}", "a".repeat(64))});
        self.hosts[host].put("/run/kubexm-double/registry.json", registry.to_string());
        let image = kubexm_plan::op::ImageLoaded {
            reference: reference.to_owned(),
            digest: format!("sha256:{}", "a".repeat(64)).parse().expect("a digest"),
            manifest: None,
            platform: "linux/amd64".to_owned(),
            source: Default::default(),
            runtime: Default::default(),
        };
        dispatch::converge(&image.into(), &self.hosts[host].machine).expect("loaded");
    }

    pub(crate) fn state(&self) -> Value {
        let text = std::fs::read_to_string(self.cluster.path().join("cluster.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// What somebody else does to the cluster.
    pub(crate) fn change_state(&self, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        change(&mut state);
        std::fs::write(self.cluster.path().join("cluster.json"), state.to_string()).expect("written");
    }

    pub(crate) fn nodes(&self) -> Vec<String> {
        self.state()["nodes"].as_object().map(|nodes| nodes.keys().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn members(&self) -> Vec<String> {
        let members = self.state()["members"].as_object().cloned().unwrap_or_default();
        members.values().filter_map(|member| member["name"].as_str().map(str::to_owned)).collect()
    }
}

fn interfaces(text: &str) -> String {
    text.replace("\"mac\"", "\"mtu\":1500,\"mac\"")
}

pub(crate) fn slot(name: &str) -> SlotName {
    SlotName(name.to_owned())
}

pub(crate) fn kubeadm(number: usize) -> String {
    format!(
        "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration:\n  name: node{number}\n\
         ---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n---\nkind: KubeletConfiguration\n"
    )
}

pub(crate) fn join(number: usize, control_plane: bool) -> String {
    let place = |name: &str| slot(name).placeholder();
    let text = format!(
        "kind: JoinConfiguration\nnodeRegistration:\n  name: node{number}\ndiscovery:\n  bootstrapToken:\n    token: \"{}\"\n    \
         caCertHashes:\n    - \"{}\"\n",
        place("token"),
        place("hash")
    );
    let key = format!("controlPlane:\n  certificateKey: \"{}\"\n", place("key"));
    if control_plane { text + &key } else { text }
}

pub(crate) fn init() -> Op {
    KubeadmInit { config: "/etc/kubexm/kubeadm.yaml".into(), cri_socket: SOCKET.into(), ignore: vec![], backup: None }
        .into()
}

pub(crate) fn act(number: usize, control_plane: bool) -> Op {
    let mut slots = vec![slot("token"), slot("hash")];
    if control_plane {
        slots.push(slot("key"));
    }
    KubeadmJoin {
        config: Digest::of(join(number, control_plane)),
        slots,
        cri_socket: SOCKET.into(),
        control_plane,
        external_etcd: false,
        ignore: vec![],
    }
    .into()
}

pub(crate) fn reset() -> Op {
    KubeadmReset { cri_socket: SOCKET.into() }.into()
}

pub(crate) fn satisfied(op: &Op, machine: &Machine) -> bool {
    dispatch::observe(op, machine).expect("a look").satisfied
}

pub(crate) fn text_of(result: Result<(), OpError>) -> String {
    result.expect_err("an error").full()
}
