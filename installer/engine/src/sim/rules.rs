//! What a simulated host does, and what it refuses to do.

use kubexm_plan::op::{Content, Unit};
use kubexm_plan::{Act, Op, Plan, Probe, Step};

use super::Failure;
use super::observe::Want;
use super::world::World;
use crate::link::SlotValues;

pub(super) const CONTAINERD: &str = "containerd.service";
pub(super) const ADMIN_CONF: &str = "path:/etc/kubernetes/admin.conf";
pub(super) const KUBELET: &str = "unit:kubelet.service";

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
        self.refuse(host, op)?;
        if let Op::Act(Act::KubeadmJoin { slots: reads, .. }) = op {
            self.refuse_values(reads, slots)?;
        }
        let want = self.want(host, op, plan, slots)?;
        self.apply(host, op, plan, step, want)?;
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
            self.set(host, plan, step, key, value)?;
        }
        self.cluster.extend(want.cluster);
        match op {
            Op::File(file) => {
                if let Content::Text { digest } = &file.content
                    && let (Some(text), Some(here)) = (plan.texts.get(digest), self.hosts.get_mut(host))
                {
                    here.texts.insert(file.path.clone(), text.clone());
                }
            }
            Op::Act(Act::KubeadmInit { .. }) => {
                self.set(host, plan, step, ADMIN_CONF, "file 0600 admin")?;
                self.set(host, plan, step, KUBELET, "enabled running")?;
                self.remove(host, "kubernetes")?;
            }
            Op::Act(Act::KubeadmJoin { control_plane, .. }) => {
                if *control_plane {
                    self.set(host, plan, step, ADMIN_CONF, "file 0600 admin")?;
                }
                self.set(host, plan, step, KUBELET, "enabled running")?;
                self.remove(host, "kubernetes")?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What must be there before an op can do its work.
    fn refuse(&self, host: &str, op: &Op) -> Result<(), String> {
        let here = self.host(host)?;
        let blob = |digest| {
            if self.has_blob(host, digest) { Ok(()) } else { Err(format!("blob {digest} is not in the node's store")) }
        };
        let containerd = || {
            if here.runs(CONTAINERD) { Ok(()) } else { Err(format!("{CONTAINERD} does not run")) }
        };
        match op {
            Op::Blobs(blobs) => blobs.blobs.keys().try_for_each(blob),
            Op::Binary(binary) => blob(&binary.blob),
            Op::Unpacked(unpacked) => blob(&unpacked.blob),
            Op::Unit(unit) => self.refuse_unit(host, unit),
            Op::Sysctl(sysctl) => match sysctl.values.keys().find(|k| k.starts_with("net.bridge.")) {
                Some(key) if !here.state.contains_key("module:br_netfilter") => {
                    Err(format!("{key} does not exist before module br_netfilter is loaded"))
                }
                _ => Ok(()),
            },
            Op::ImageLoaded(_) => op.blobs().iter().try_for_each(blob).and_then(|()| containerd()),
            Op::RegistryLayout(_) => op.blobs().iter().try_for_each(blob),
            Op::Kubeconfig(_) if !here.state.contains_key(ADMIN_CONF) => Err("there is no admin.conf".to_owned()),
            Op::KubeObject(_) | Op::NodeUntainted(_) | Op::NodeLabel(_) => self.refuse_without_cluster(),
            Op::Act(Act::KubeadmJoin { .. }) => containerd().and_then(|()| self.refuse_without_cluster()),
            Op::Act(Act::KubeadmInit { config, .. }) => {
                containerd()?;
                if !here.has_path(config) {
                    return Err(format!("kubeadm's config {config} is missing"));
                }
                if !here.state.keys().any(|key| key.starts_with("path:") && key.ends_with("/kubeadm")) {
                    return Err("there is no kubeadm".to_owned());
                }
                match here.state.get("swap").map(String::as_str) {
                    Some("on") => Err("kubelet does not start with swap on".to_owned()),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn refuse_without_cluster(&self) -> Result<(), String> {
        if self.cluster.contains_key("initialised") { Ok(()) } else { Err("no API server answers".to_owned()) }
    }

    /// A unit needs its file; started, also what it loads and the programs that its files name.
    fn refuse_unit(&self, host: &str, unit: &Unit) -> Result<(), String> {
        let here = self.host(host)?;
        if !unit.enabled && unit.running != Some(true) {
            return Ok(());
        }
        let own = format!("/{}", unit.name);
        if !here.state.keys().any(|key| key.starts_with("path:") && key.ends_with(&own)) {
            return Err(format!("unit {} has no file", unit.name));
        }
        if unit.running != Some(true) {
            return Ok(());
        }
        if let Some(path) = unit.loaded.iter().find(|path| !here.has_path(path)) {
            return Err(format!("{} would start without {path}", unit.name));
        }
        let drop_ins = format!("/{}.d/", unit.name);
        let files = here.texts.iter().filter(|(path, _)| path.ends_with(&own) || path.contains(&drop_ins));
        for program in files.flat_map(|(_, text)| programs(text)) {
            if program.starts_with("/usr/local/") && !here.has_path(program) {
                return Err(format!("{} would start without its program {program}", unit.name));
            }
        }
        Ok(())
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
            Probe::Https { ca, .. } if !here.has_path(ca) => Some(format!("{ca} is missing")),
            Probe::Https { url, .. } if url.contains(":6443") => cluster(),
            Probe::Https { url, .. } => {
                let serves = |unit: &str| unit.contains("depot") || unit.contains("registry");
                let served = self.hosts.values().any(|h| h.units().any(|(unit, running)| running && serves(unit)));
                (!served).then(|| format!("nobody serves {url}"))
            }
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
