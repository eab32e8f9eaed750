//! What a simulated host does, and what it refuses to do.

use kubexm_plan::op::{Content, File, Unit};
use kubexm_plan::{Act, Op, Plan, Probe, Step};

use super::Failure;
use super::observe::Want;
use super::world::World;
use crate::link::SlotValues;

pub(super) const CONTAINERD: &str = "containerd.service";
pub(super) const ADMIN_CONF: &str = "path:/etc/kubernetes/admin.conf";
pub(super) const KUBELET_UNIT: &str = "kubelet.service";
pub(super) const KUBELET: &str = "unit:kubelet.service";
pub(super) const KUBELET_CONF: &str = "path:/etc/kubernetes/kubelet.conf";
pub(super) const KUBELET_CONFIG: &str = "path:/var/lib/kubelet/config.yaml";
pub(super) const ETCD_DATA: &str = "path:/var/lib/etcd/member";
pub(super) const AGENT: &str = "path:/usr/local/bin/kubexm-install";
/// Whether pods run on a host.
pub(super) const PODS: &str = "pods";
/// What they make in its network.
pub(super) const NETWORK: &str = "network";

impl World {
    /// Makes an op so, with the failure that was asked for.
    pub(super) fn converge(
        &mut self,
        host: &str,
        op: &Op,
        plan: &Plan,
        step: &Step,
        slots: &SlotValues,
    ) -> Result<(), String> {
        self.converges += 1;
        let fails = |at| self.failure == Some(at);
        let (before, after) = (fails(Failure::Before(self.converges)), fails(Failure::After(self.converges)));
        if before {
            self.failure = None;
            if let Op::Act(Act::KubeadmJoin { slots: reads, .. }) = op {
                self.wear_out(reads, slots);
            }
            return Err("injected failure before the change".to_owned());
        }
        self.refuse(host, op, step)?;
        if let Op::Act(Act::KubeadmJoin { slots: reads, .. }) = op {
            self.refuse_values(reads, slots)?;
        }
        match op {
            Op::Reset(reset) => self.converge_reset(host, reset)?,
            Op::MoveAside(aside) => self.converge_aside(host, aside)?,
            op => {
                let want = self.want(host, op, plan, slots)?;
                self.apply(host, op, plan, step, want)?;
            }
        }
        self.look();
        if after {
            self.failure = None;
            return Err("injected failure after the change".to_owned());
        }
        Ok(())
    }

    fn apply(&mut self, host: &str, op: &Op, plan: &Plan, step: &Step, want: Want) -> Result<(), String> {
        if let Op::Act(Act::KubeadmReset { .. }) = op {
            self.reset(host)?;
        }
        for (key, value) in &want.host {
            self.set(host, step, key, value)?;
        }
        self.cluster.extend(want.cluster);
        match op {
            Op::File(File { content: Content::Text { digest }, .. }) => {
                if let Some(text) = plan.texts.get(digest) {
                    self.texts.insert(digest.to_string(), text.clone());
                }
            }
            // What the service puts into the folders that its step names.
            Op::Unit(Unit { name, running: Some(true), .. }) => {
                let folders = step.ops.iter().filter_map(|op| match op {
                    Op::StateDir(dir) => Some(format!("path:{}/of-{name}", dir.path)),
                    _ => None,
                });
                for key in folders.collect::<Vec<_>>() {
                    self.restore_key(host, &key, "file 0600 state");
                }
            }
            Op::Act(Act::KubeadmInit { .. }) => self.make_node(host, step, true)?,
            Op::Act(Act::KubeadmJoin { control_plane, .. }) => self.make_node(host, step, *control_plane)?,
            Op::Act(Act::NodeDelete { node }) => self.drop_node(node),
            _ => {}
        }
        Ok(())
    }

    /// What must be there before an op can do its work, from a step that this one waits for.
    fn refuse(&self, host: &str, op: &Op, step: &Step) -> Result<(), String> {
        let here = self.host(host)?;
        let blob = |digest| {
            if self.has_blob(host, digest) { Ok(()) } else { Err(format!("blob {digest} is not in the node's store")) }
        };
        let containerd = || {
            self.read(host, step, &format!("unit:{CONTAINERD}"))?;
            if here.runs(CONTAINERD) { Ok(()) } else { Err(format!("{CONTAINERD} does not run")) }
        };
        let admin = || {
            self.read(host, step, ADMIN_CONF)?;
            if here.state.contains_key(ADMIN_CONF) { Ok(()) } else { Err("there is no admin.conf".to_owned()) }
        };
        let node = |name: &str| {
            if self.is_node(name) { Ok(()) } else { Err(format!("nodes \"{name}\" not found")) }
        };
        match op {
            Op::Blobs(blobs) => blobs.blobs.keys().try_for_each(blob),
            Op::Binary(binary) => blob(&binary.blob),
            Op::Unpacked(unpacked) => blob(&unpacked.blob),
            Op::Unit(unit) => self.refuse_unit(host, unit, step),
            Op::Sysctl(sysctl) => match sysctl.values.keys().find(|k| k.starts_with("net.bridge.")) {
                Some(key) if !here.state.contains_key("module:br_netfilter") => {
                    Err(format!("{key} does not exist before module br_netfilter is loaded"))
                }
                Some(_) => self.read(host, step, "module:br_netfilter"),
                None => Ok(()),
            },
            Op::ImageLoaded(image) => {
                op.blobs().iter().try_for_each(blob)?;
                if image.source.is_registry() && !self.serves_images() {
                    return Err(format!("no registry serves {}", image.reference));
                }
                containerd()
            }
            Op::RegistryLayout(_) => op.blobs().iter().try_for_each(blob),
            Op::Packages(packages) => {
                op.blobs().iter().try_for_each(blob)?;
                self.read(host, step, &format!("path:{}", packages.source))?;
                if here.has_path(&packages.source) {
                    return Ok(());
                }
                Err(format!("the source file {} is missing", packages.source))
            }
            Op::Kubeconfig(_) => admin(),
            Op::KubeObject(_) => admin().and_then(|()| self.refuse_without_cluster()),
            Op::NodeUntainted(taint) => admin().and_then(|()| node(&taint.node)),
            Op::NodeLabel(label) => admin().and_then(|()| node(&label.node)),
            Op::Act(Act::NodeAwaited { .. }) => admin().and_then(|()| self.refuse_without_cluster()),
            Op::Act(Act::KubeadmJoin { .. }) => {
                self.refuse_without_cluster()?;
                containerd()?;
                self.refuse_kubeadm(host, step)
            }
            Op::Act(Act::KubeadmInit { config, .. }) => {
                if let Some(by) = self.cluster.get("initialised") {
                    return Err(format!("{by} has begun the cluster already"));
                }
                containerd()?;
                self.read(host, step, &format!("path:{config}"))?;
                if !here.has_path(config) {
                    return Err(format!("kubeadm's config {config} is missing"));
                }
                self.refuse_kubeadm(host, step)
            }
            _ => Ok(()),
        }
    }

    /// What kubeadm looks at before it begins.
    fn refuse_kubeadm(&self, host: &str, step: &Step) -> Result<(), String> {
        let here = self.host(host)?;
        for name in ["kubeadm", KUBELET_UNIT] {
            let end = format!("/{name}");
            match here.state.keys().find(|key| key.starts_with("path:") && key.ends_with(&end)) {
                Some(key) => self.read(host, step, key)?,
                None => return Err(format!("there is no {name}")),
            }
        }
        self.read(host, step, "swap")?;
        match here.state.get("swap").map(String::as_str) {
            Some("on") => Err("kubelet does not start with swap on".to_owned()),
            _ => Ok(()),
        }
    }

    fn serves_images(&self) -> bool {
        let serves = |unit: &str| unit.contains("depot") || unit.contains("registry");
        self.hosts.values().any(|h| h.units().any(|(unit, running)| running && serves(unit)))
    }

    fn refuse_without_cluster(&self) -> Result<(), String> {
        if self.cluster.contains_key("initialised") { Ok(()) } else { Err("no API server answers".to_owned()) }
    }

    /// A unit needs its file; started, also what it loads and the programs that its files name.
    fn refuse_unit(&self, host: &str, unit: &Unit, step: &Step) -> Result<(), String> {
        let here = self.host(host)?;
        if !unit.enabled && unit.running != Some(true) {
            return Ok(());
        }
        let own = format!("/{}", unit.name);
        if let Some(key) = here.brings(&unit.name) {
            self.read(host, step, key)?;
        } else {
            match here.state.keys().find(|key| key.starts_with("path:") && key.ends_with(&own)) {
                Some(key) => self.read(host, step, key)?,
                None => return Err(format!("unit {} has no file", unit.name)),
            }
        }
        if unit.running != Some(true) {
            return Ok(());
        }
        let mut reads = unit.loaded.clone();
        reads.extend(self.unit_reads(host, &unit.name));
        for path in reads {
            if !here.has_path(&path) {
                return Err(format!("{} would start without {path}", unit.name));
            }
            self.read(host, step, &format!("path:{path}"))?;
        }
        Ok(())
    }

    /// The programs that a unit's files start, as far as a plan brings them; and a file of its own, when it has none.
    pub(super) fn unit_reads(&self, host: &str, unit: &str) -> Vec<String> {
        let Some(here) = self.hosts.get(host) else { return Vec::new() };
        let (own, drop_ins) = (format!("/{unit}"), format!("/{unit}.d/"));
        let files = || here.state.iter().filter_map(|(key, value)| Some((key.strip_prefix("path:")?, value)));
        let mut reads: Vec<String> = Vec::new();
        if here.brings(unit).is_none() && !files().any(|(path, _)| path.ends_with(&own)) {
            reads.push(format!("/etc/systemd/system{own}"));
        }
        let texts = files().filter(|(path, _)| path.ends_with(&own) || path.contains(&drop_ins));
        let texts = texts.filter_map(|(_, value)| self.texts.get(value.rsplit(' ').next()?));
        reads.extend(
            texts.flat_map(|text| programs(text)).filter(|path| path.starts_with("/usr/local/")).map(str::to_owned),
        );
        reads
    }

    /// What a probe misses, or none when it holds.
    pub(super) fn probe(&self, host: &str, probe: &Probe) -> Option<String> {
        let here = match self.host(host) {
            Ok(here) => here,
            Err(missing) => return Some(missing),
        };
        let cluster = || self.refuse_without_cluster().err();
        match probe {
            Probe::CriReady { .. } => (!here.runs(CONTAINERD)).then(|| format!("{CONTAINERD} does not run")),
            Probe::RegistryServes { url, .. } => {
                let runs = here.runs("kubexm-registry.service");
                (!runs).then(|| format!("nobody serves {url}"))
            }
            Probe::ClockFollows { .. } => {
                let runs = ["chrony.service", "chronyd.service"].iter().any(|unit| here.runs(unit));
                (!runs).then(|| "chronyd does not answer".to_owned())
            }
            Probe::Https { ca, .. } if !here.has_path(ca) => Some(format!("{ca} is missing")),
            Probe::Https { url, .. } if url.contains(":6443") => cluster(),
            Probe::Https { url, .. } => (!self.serves_images()).then(|| format!("nobody serves {url}")),
            Probe::NodeReady { node } if !self.is_node(node) => Some(format!("nodes \"{node}\" not found")),
            Probe::NodeReady { .. } | Probe::PodsRunning { .. } | Probe::PodNetwork { .. } => cluster().or_else(|| {
                let network = self.cluster.keys().any(|key| key.starts_with("object:"));
                (!network).then(|| "no pod network was applied".to_owned())
            }),
        }
    }
}

/// Programs that a unit's text starts.
fn programs(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("ExecStart="));
    lines
        .filter_map(|line| line.split_whitespace().next())
        .map(|word| word.trim_start_matches(['-', '@', '+', '!', ':']))
}
