//! How a simulated host converges ops, and what it refuses.

use std::net::IpAddr;
use std::sync::Arc;

use kubexm_plan::balancer::KEEPALIVED_UNIT;
use kubexm_plan::kubeadm_certificates::KUBE_VIP;
use kubexm_plan::op::{DrainedFor, Effect, Unit, UpgradeOf};
use kubexm_plan::{Op, Plan, Probe, Resource, Step, etcd, runtime};

use super::failure::Failure;
use super::keys::Want;
use super::names::{ADMIN_CONF, KUBELET_CONF, KUBELET_UNIT};
use super::world::{Host, World};
use crate::link::SlotValues;

impl World {
    /// Converges an op, with the injected failure.
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
            if let Op::Act(act) = op {
                self.refuse_join(act, slots, true)?;
            }
            return Err("injected failure before the change".to_owned());
        }
        self.refuse(host, op, step)?;
        if let Op::Act(act) = op {
            self.refuse_join(act, slots, false)?;
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
        if matches!(op, Op::Act(act) if act.effect() == Effect::ResetsNode) {
            self.reset(host)?;
        }
        for (key, value) in &want.host {
            self.set(host, step, key, value)?;
        }
        self.cluster.extend(want.cluster);
        if let Some((digest, text)) = op.text().and_then(|digest| Some((digest, plan.texts.get(&digest)?))) {
            Arc::make_mut(&mut self.texts).insert(digest.to_string(), text.clone());
        }
        match op {
            // Data that the service writes into the folders that its step names.
            Op::Unit(Unit { name, running: Some(true), .. }) => {
                if name == KUBELET_UNIT {
                    self.kubelet_upgraded(host)?;
                }
                let folders = step.ops.iter().filter_map(|op| match op {
                    Op::StateDir(dir) => Some(format!("path:{}/of-{name}", dir.path)),
                    _ => None,
                });
                for key in folders.collect::<Vec<_>>() {
                    self.restore_key(host, &key, "file 0600 state");
                }
                Ok(())
            }
            Op::Act(act) => {
                self.apply_act(host, act, step)?;
                if act.effect().starts_static_pods() { self.start_static_pods(host, plan, step) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// kubelet starts the static pods of a new control plane, which read their files: earlier steps must have written them.
    fn start_static_pods(&mut self, host: &str, plan: &Plan, step: &Step) -> Result<(), String> {
        let ops = plan.steps.iter().filter(|step| step.host == host).flat_map(|step| &step.ops);
        let pods = ops.filter_map(|op| if let Op::StaticPodStarted(pod) = op { Some(pod) } else { None });
        for pod in pods.filter(|pod| pod.is_of_kubeadm()) {
            for path in &pod.after {
                self.need(host, step, &Resource::Path(path.clone()))?;
            }
            for (key, value) in self.want_pod(host, pod)? {
                self.set(host, step, &key, &value)?;
            }
        }
        Ok(())
    }

    /// Refuses an op whose needs are missing, or were written by a step that its own does not wait for.
    fn refuse(&self, host: &str, op: &Op, step: &Step) -> Result<(), String> {
        let needs = op.needs();
        // The link delivers blobs before the op is converged.
        let brought = op
            .resource_changes()
            .into_iter()
            .filter(|change| change.value.as_deref() != Some("absent"))
            .map(|change| change.resource)
            .filter(|resource| matches!(resource, Resource::Blob(_)));
        let blobs = needs.blobs.iter().copied().map(Resource::Blob);
        brought.chain(blobs).chain(needs.resources).try_for_each(|resource| self.need(host, step, &resource))?;
        match op {
            Op::Unit(unit) => self.refuse_unit(host, unit, step),
            Op::Act(act) => self.refuse_act(host, act, step),
            _ => Ok(()),
        }
    }

    fn need(&self, host: &str, step: &Step, resource: &Resource) -> Result<(), String> {
        let here = self.host(host)?;
        let there = |there: bool, what: String| if there { Ok(()) } else { Err(what) };
        match resource {
            Resource::Blob(digest) => {
                there(self.has_blob(host, digest), format!("blob {digest} is not in the node's store"))
            }
            Resource::Path(path) => {
                self.read(host, step, &format!("path:{path}"))?;
                there(here.has_path(path), format!("{path} is missing"))
            }
            Resource::Module(name) => {
                self.read(host, step, &format!("module:{name}"))?;
                there(here.state.contains_key(&format!("module:{name}")), format!("module {name} is not loaded"))
            }
            Resource::Unit(name) => {
                self.read(host, step, &format!("unit:{name}"))?;
                there(here.runs(name), format!("{name} does not run"))
            }
            Resource::Runtime => {
                for runtime in runtime::ALL {
                    self.read(host, step, &format!("unit:{}", runtime.unit))?;
                }
                there(here.runs_containers(), "no container runtime runs".to_owned())
            }
            Resource::AdminConf => {
                self.read(host, step, ADMIN_CONF)?;
                there(here.state.contains_key(ADMIN_CONF), "there is no admin.conf".to_owned())
            }
            Resource::Api => self.refuse_without_cluster(),
            Resource::Node(name) => there(self.is_node(name), format!("nodes \"{name}\" not found")),
            Resource::Registry => there(self.serves_images(), "no registry serves images".to_owned()),
            other => Err(format!("the simulated fleet does not know whether {other}, which {} needs, exists", step.id)),
        }
    }

    fn serves_images(&self) -> bool {
        let serves = |unit: &str| unit.contains("depot") || unit.contains("registry");
        self.hosts.values().any(|h| h.units().any(|(unit, running)| running && serves(unit)))
    }

    fn refuse_without_cluster(&self) -> Result<(), String> {
        if self.cluster.contains_key("initialised") { Ok(()) } else { Err("no API server answers".to_owned()) }
    }

    /// A unit needs its file; to be started, also the files that it loads and the programs in them.
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
        let mut reads: Vec<String> = unit.files().cloned().collect();
        reads.extend(self.unit_reads(host, &unit.name));
        for path in reads {
            if !here.has_path(&path) {
                return Err(format!("{} would start without {path}", unit.name));
            }
            self.read(host, step, &here.key_of(&path))?;
        }
        Ok(())
    }

    /// The programs in a unit's files that a plan installs; and the unit's file if it is missing.
    pub(super) fn unit_reads(&self, host: &str, unit: &str) -> Vec<String> {
        let Some(here) = self.hosts.get(host) else { return Vec::new() };
        let (own, drop_ins) = (format!("/{unit}"), format!("/{unit}.d/"));
        let files = || here.with_prefix("path:");
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

    /// The first host that moves an address has it; another one only if a test has set `address:10.0.0.100` to `here` on it.
    fn has_address(&self, host: &str, address: IpAddr) -> bool {
        let kube_vip = format!("path:/etc/kubernetes/manifests/{}.yaml", KUBE_VIP.0);
        let moves =
            |here: &Host| here.runs(KEEPALIVED_UNIT) || (here.runs(KUBELET_UNIT) && here.state.contains_key(&kube_vip));
        let first = self.hosts.iter().find(|(_, here)| moves(here)).map(|(name, _)| name.as_str());
        let set = self.hosts.get(host).and_then(|here| here.state.get(&format!("address:{address}")));
        first == Some(host) || set.is_some_and(|set| set == "here")
    }

    /// Why a probe is not satisfied, or none if it is.
    pub(super) fn probe(&self, host: &str, probe: &Probe) -> Option<String> {
        let here = match self.host(host) {
            Ok(here) => here,
            Err(missing) => return Some(missing),
        };
        let cluster = || self.refuse_without_cluster().err();
        match probe {
            Probe::CriReady { runtime, .. } => {
                let unit = runtime::of(*runtime).unit;
                (!here.runs(unit)).then(|| format!("{unit} does not run"))
            }
            Probe::Https { login: Some(login), .. } | Probe::RegistryServes { login: Some(login), .. }
                if !here.has_path(login) =>
            {
                Some(format!("{login} is missing"))
            }
            Probe::RegistryServes { url, .. } => {
                let runs = [kubexm_plan::depot::REGISTRY_UNIT, kubexm_plan::op::HARBOR_UNIT]
                    .iter()
                    .any(|unit| here.runs(unit));
                (!runs).then(|| format!("nobody serves {url}"))
            }
            Probe::DepotLacks { ca, .. } | Probe::RegistryLacks { ca, .. } if !here.has_path(ca) => {
                Some(format!("{ca} is missing"))
            }
            Probe::DepotLacks { url, .. } => {
                (!here.runs(kubexm_plan::depot::UNIT)).then(|| format!("nobody serves {url}"))
            }
            Probe::RegistryLacks { url, .. } => {
                (!here.runs(kubexm_plan::depot::REGISTRY_UNIT)).then(|| format!("nobody serves {url}"))
            }
            Probe::ImagesUnused { images } => cluster().or_else(|| {
                let used = self.used_images.intersection(images).next();
                used.map(|image| format!("in use: {image} (Pod default/simulated)"))
            }),
            Probe::HarborHealthy { url, .. } => {
                let runs = here.runs(kubexm_plan::op::HARBOR_UNIT);
                (!runs).then(|| format!("nobody serves {url}"))
            }
            Probe::EtcdMembersHealthy { members, unnamed, ca, certificate, key } => {
                let missing = [ca, certificate, key].into_iter().find(|path| !here.has_path(path));
                let runs = |name: &&String| *unnamed || self.hosts.get(*name).is_some_and(|host| host.runs(etcd::UNIT));
                match (missing, members.keys().find(|name| !runs(name))) {
                    (Some(path), _) => Some(format!("{path} is missing")),
                    (None, Some(member)) => Some(format!("{member}: etcd does not run")),
                    (None, None) => None,
                }
            }
            Probe::ClockFollows { .. } => {
                let runs = ["chrony.service", "chronyd.service"].iter().any(|unit| here.runs(unit));
                (!runs).then(|| "chronyd does not answer".to_owned())
            }
            Probe::VirtualAddress { address } => {
                (!here.runs(KEEPALIVED_UNIT)).then(|| format!("no host has {address}"))
            }
            Probe::HasAddress { address } => {
                (!self.has_address(host, *address)).then(|| format!("it does not have {address}"))
            }
            Probe::OneHasAddress { .. } => Some("this host cannot answer for the others".to_owned()),
            // kubeadm has written the CA with the node.
            Probe::ApiReady { .. } if !here.state.contains_key(KUBELET_CONF) => Some("the CA is missing".to_owned()),
            Probe::ApiReady { .. } => cluster(),
            Probe::Https { ca, .. } if !here.has_path(ca) => Some(format!("{ca} is missing")),
            Probe::Https { url, .. } if url.contains(":6443") => cluster(),
            Probe::Https { url, .. } => (!self.serves_images()).then(|| format!("nobody serves {url}")),
            Probe::NodeReady { node, .. } | Probe::NodeAwaitsNetwork { node } if !self.is_node(node) => {
                Some(format!("nodes \"{node}\" not found"))
            }
            Probe::NodeReady { node, kubelet: Some(wanted) } if self.kubelet_version(node) != wanted => {
                Some(format!("kubelet of {node} is {}", self.kubelet_version(node)))
            }
            Probe::NodeDrained { node, unless_kubelet, unless_packages } => {
                let unless = DrainedFor { kubelet: unless_kubelet.as_deref(), packages: unless_packages.as_deref() };
                let upgraded = self.has_all(node, unless);
                let drained = upgraded || !self.is_node(node) || self.cluster.contains_key(&format!("drained:{node}"));
                (!drained).then(|| "it is not drained yet".to_owned())
            }
            Probe::StaticPodsReady { node, images, .. } => {
                let tag = images.get("kube-apiserver").and_then(|image| image.rsplit_once(':')).map(|(_, tag)| tag);
                let old = tag.is_some_and(|tag| self.api_version(node) != tag);
                cluster().or_else(|| old.then(|| format!("kube-apiserver of {node} is {}", self.api_version(node))))
            }
            Probe::EtcdHealthy { members } => {
                let found = self.members().count();
                (found < *members).then(|| format!("etcd has {found} members"))
            }
            Probe::KubeadmUpgradePasses { upgrade } => match &upgrade.of {
                UpgradeOf::Cluster { config: Some(config) } if !here.has_path(config) => {
                    Some(format!("{config} is missing"))
                }
                _ => cluster(),
            },
            Probe::NodeAwaitsNetwork { .. } | Probe::PodsRunning { kubeadm_only: true, .. } => cluster(),
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
