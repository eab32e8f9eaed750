//! A plan of a control plane and workers that may be left out.

use std::collections::BTreeMap;

use kubexm_plan::op::{
    Binary, Blobs, Content, File, KubeadmInit, KubeadmJoin, KubeadmReset, NodeDelete, NodeLabel, NodeLookup, SwapOff,
    Unit,
};
use kubexm_plan::{Plan, PlanHost, Probe, SCHEMA, SlotName, SlotProvider, Step, StepId, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;

use super::{BLOB, BUNDLE, CLUSTER};

const SOCKET: &str = "unix:///run/containerd/containerd.sock";

pub fn id(name: &str) -> StepId {
    StepId(name.to_owned())
}

/// `os.runtime` on every host; `kubernetes.init` on `cp`; for each worker `cp/await.<worker>`, `kubernetes.join` (with values made on `cp`)
/// and `cp/labels.<worker>`, which is of the worker's domain and gone with the join; `cp/check.end`, which waits for the
/// workers only to settle. Workers are optional.
pub fn plan(workers: &[&str]) -> Plan {
    let host = |name: &str, optional| PlanHost { name: name.to_owned(), roles: Vec::new(), optional };
    let (token, hash) = (SlotName("token".to_owned()), SlotName("hash".to_owned()));
    let mut plan = Plan {
        schema: SCHEMA,
        pipeline: kubexm_plan::Pipeline::Create,
        cluster_name: "demo".to_owned(),
        cluster_id: None,
        cluster: Digest::of(CLUSTER),
        bundle: Some(Digest::of(BUNDLE)),
        hosts: std::iter::once(host("cp", false)).chain(workers.iter().map(|name| host(name, true))).collect(),
        fleet_concurrency: 1 + workers.len(),
        host_concurrency: 2,
        slots: BTreeMap::from([
            (token.clone(), SlotProvider::JoinToken { host: "cp".to_owned() }),
            (hash.clone(), SlotProvider::CaCertHash { host: "cp".to_owned() }),
        ]),
        texts: BTreeMap::new(),
        steps: Vec::new(),
    };
    let join = plan.text(format!("token: {}\ncaCertHashes: [{}]\n", token.placeholder(), hash.placeholder()));
    let reset = Undo::Act { act: KubeadmReset { cri_socket: SOCKET.to_owned() }.into() };
    let runtime = runtime(&mut plan, "cp");
    let init = Step::on("cp", "kubernetes.init", "Begin the cluster")
        .ensure(KubeadmInit {
            config: "/etc/containerd/config.toml".to_owned(),
            cri_socket: SOCKET.to_owned(),
            ignore: Vec::new(),
            backup: None,
        })
        .after(&runtime)
        .undo(reset.clone())
        .build();
    let mut check = Step::on("cp", "check.end", "Check the cluster")
        .ensure(NodeLabel { node: "cp".to_owned(), key: "checked".to_owned(), value: "yes".to_owned() })
        .after(&init.id);
    plan.steps.push(init);
    for worker in workers {
        let runtime = self::runtime(&mut plan, worker);
        let awaited = Step::on("cp", &format!("await.{worker}"), "Await the node")
            .ensure(NodeLookup { node: (*worker).to_owned() })
            .domain(worker)
            .after(&id("cp/kubernetes.init"))
            .undo(Undo::Act { act: NodeDelete { node: (*worker).to_owned() }.into() })
            .build();
        let join = Step::on(worker, "kubernetes.join", "Join the cluster")
            .ensure(KubeadmJoin {
                config: join,
                slots: vec![token.clone(), hash.clone()],
                cri_socket: SOCKET.to_owned(),
                control_plane: false,
                external_etcd: false,
                ignore: Vec::new(),
            })
            .after(&runtime)
            .after(&awaited.id)
            .undo(reset.clone())
            .build();
        let label = Step::on("cp", &format!("labels.{worker}"), "Label the node")
            .ensure(NodeLabel { node: (*worker).to_owned(), key: "role".to_owned(), value: "worker".to_owned() })
            .domain(worker)
            .after(&join.id)
            .undo(Undo::WithParent { step: awaited.id.clone() })
            .build();
        check = check.after_end(&label.id);
        plan.steps.extend([awaited, join, label]);
    }
    plan.steps.push(check.undo(Undo::WithParent { step: id("cp/kubernetes.init") }).build());
    plan
}

/// Everything that a node needs before it joins, in one step.
fn runtime(plan: &mut Plan, host: &str) -> StepId {
    let mut file = |path: &str, text: &str| File {
        path: path.to_owned(),
        content: Content::Text { digest: plan.text(text) },
        mode: 0o644,
    };
    let unit = |name: &str, running| Unit {
        name: name.to_owned(),
        enabled: true,
        running,
        loaded: running.iter().map(|_| "/etc/containerd/config.toml".to_owned()).collect(),
        reloaded: Vec::new(),
    };
    let binary = |path: &str| Binary { path: path.to_owned(), blob: Digest::of(BLOB), mode: 0o755 };
    let step = Step::on(host, "os.runtime", "Prepare the host")
        .ensure(SwapOff {})
        .ensure(Blobs { blobs: BTreeMap::from([(Digest::of(BLOB), BLOB.len() as u64)]), depots: None, shared_at: None })
        .ensure(binary("/usr/local/bin/containerd"))
        .ensure(binary("/usr/local/bin/kubeadm"))
        .ensure(file("/etc/containerd/config.toml", "version = 3\n"))
        .ensure(file("/etc/systemd/system/containerd.service", "[Service]\nExecStart=/usr/local/bin/containerd\n"))
        .ensure(file("/etc/systemd/system/kubelet.service", "[Service]\nExecStart=/usr/bin/kubelet\n"))
        .ensure(unit("containerd.service", Some(true)))
        .ensure(unit("kubelet.service", None))
        .probe(Probe::CriReady { runtime: RuntimeKind::Containerd, config_dump: Vec::new() }, 5)
        .undo(Undo::RestoreBefore)
        .build();
    let id = step.id.clone();
    plan.steps.push(step);
    id
}
