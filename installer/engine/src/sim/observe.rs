//! What each op wants of a simulated host, as keys and values; looking compares them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubexm_plan::op::{Content, Unit};
use kubexm_plan::{Act, Op, Plan, ledger};
use kubexm_spec::Digest;

use super::reset::{held, is_below};
use super::world::{World, blob_key};
use crate::link::{Found, SlotValues};

/// Keys and values that must be so; the first part is of the host, the second of the cluster.
pub(super) struct Want {
    pub(super) host: BTreeMap<String, String>,
    pub(super) cluster: BTreeMap<String, String>,
}

impl World {
    pub(super) fn observe(&self, host: &str, op: &Op, plan: &Plan, slots: &SlotValues) -> Result<Found, String> {
        match op {
            Op::Reset(reset) => return self.observe_reset(host, reset),
            Op::MoveAside(aside) => return self.observe_aside(host, aside),
            _ => {}
        }
        let want = self.want(host, op, plan, slots)?;
        let here = &self.host(host)?.state;
        let look =
            |want: &BTreeMap<String, String>, state: &BTreeMap<String, String>| -> BTreeMap<String, Option<String>> {
                want.keys().map(|key| (key.clone(), state.get(key).cloned())).collect()
            };
        let holds = |want: &BTreeMap<String, String>, state: &BTreeMap<String, String>| {
            want.iter().all(|(key, value)| state.get(key) == Some(value))
        };
        let satisfied = holds(&want.host, here) && holds(&want.cluster, &self.cluster);
        let satisfied = match op {
            // A unit that nobody knows neither runs nor starts.
            Op::Unit(Unit { name, enabled: false, running: Some(false), .. }) => {
                satisfied || !here.contains_key(&format!("unit:{name}"))
            }
            Op::Act(Act::NodeDelete { node }) => !self.is_node(node),
            Op::Act(Act::NodeAwaited { node }) => satisfied || self.is_node(node),
            _ => satisfied,
        };
        let mut state =
            serde_json::json!({ "host": look(&want.host, here), "cluster": look(&want.cluster, &self.cluster) });
        if let Op::StateDir(dir) = op {
            let there = here.keys().any(|key| is_below(key, std::slice::from_ref(&dir.path)));
            state["entry"] = serde_json::json!({ "is": if there { "directory" } else { "absent" } });
            // What a service of ours has filled already is not listed: nothing of it goes.
            let is_it = |op: &Op| matches!(op, Op::StateDir(other) if other == dir);
            if there && !ledger::stands(self.host(host)?.ledger.iter().map(Arc::as_ref), is_it) {
                state["held"] = serde_json::json!(held(here, &dir.path));
            }
        }
        Ok(Found { state, satisfied })
    }

    pub(super) fn want(&self, host: &str, op: &Op, plan: &Plan, slots: &SlotValues) -> Result<Want, String> {
        let mut here: Vec<(String, String)> = Vec::new();
        let mut cluster: Vec<(String, String)> = Vec::new();
        match op {
            Op::File(file) => {
                let digest = content_digest(&file.content, plan, slots)?;
                here.push(path(&file.path, format!("file {:04o} {digest}", file.mode)));
            }
            Op::Dir(dir) => here.push(path(&dir.path, format!("dir {:04o}", dir.mode))),
            // Converge does nothing: what a service puts there is not of the plan.
            Op::StateDir(_) => {}
            Op::Link(link) => here.push(path(&link.path, format!("link {}", link.target))),
            Op::Blobs(blobs) => here.extend(blobs.blobs.keys().map(|d| (blob_key(d), "present".to_owned()))),
            Op::Binary(binary) => here.push(path(&binary.path, format!("file {:04o} {}", binary.mode, binary.blob))),
            Op::Unpacked(unpacked) => {
                for (member, to) in &unpacked.members {
                    here.push(path(to, format!("file 0755 {}#{member}", unpacked.blob)));
                }
                if let Some(all) = &unpacked.all_into {
                    here.push(path(&format!("{}/*", all.directory), format!("{}#{}/*", unpacked.blob, all.folder)));
                }
            }
            Op::RegistryLayout(layout) => {
                let names: Vec<&str> = layout.repositories.keys().map(String::as_str).collect();
                here.push(path(&format!("{}/docker", layout.data_dir), format!("repositories {}", names.join(" "))));
            }
            Op::Packages(packages) => {
                let installed = packages.packages.iter();
                here.extend(installed.map(|(name, one)| (format!("package:{name}"), one.version.clone())));
                here.extend(packages.replaced.keys().map(|name| (format!("package:{name}"), "replaced".to_owned())));
                here.extend(packages.links().map(|(link, blob)| path(&link, format!("link {blob}"))));
            }
            Op::Unit(unit) => here.extend(self.want_unit(host, unit)?),
            Op::Sysctl(sysctl) => {
                here.push(path(&sysctl.path, "sysctls".to_owned()));
                here.extend(sysctl.values.iter().map(|(key, value)| (format!("sysctl:{key}"), value.clone())));
            }
            Op::KernelModule(kernel) => {
                here.push(path(&kernel.path, "modules".to_owned()));
                here.extend(kernel.modules.iter().map(|name| (format!("module:{name}"), "loaded".to_owned())));
            }
            Op::SwapOff(_) => here.push(("swap".to_owned(), "off".to_owned())),
            Op::HostsBlock(block) => here.push(("hosts".to_owned(), block.lines.join("; "))),
            Op::Resolver(resolver) => here.push(("resolver".to_owned(), resolver.nameservers.join(" "))),
            Op::SelinuxMode(_) => here.push(("selinux".to_owned(), "permissive".to_owned())),
            Op::Hostname(hostname) => here.push(("hostname".to_owned(), hostname.name.clone())),
            Op::ImageLoaded(image) => here.push((format!("image:{}", image.reference), image.digest.to_string())),
            Op::Kubeconfig(kubeconfig) => here.push((format!("kubeconfig:{}", kubeconfig.user), "admin".to_owned())),
            Op::Stamp(stamp) => here.push(("stamp".to_owned(), stamp.cluster.clone())),
            Op::KubeObject(object) => cluster.push((format!("object:{}", object.name), object.text.to_string())),
            Op::NodeUntainted(taint) => {
                cluster.push((format!("taint:{}:{}", taint.node, taint.key), "absent".to_owned()))
            }
            Op::NodeLabel(label) => cluster.push((format!("label:{}:{}", label.node, label.key), label.value.clone())),
            Op::Act(Act::KubeadmInit { .. }) => cluster.push(("initialised".to_owned(), host.to_owned())),
            Op::Act(Act::KubeadmJoin { .. }) => cluster.push((format!("joined:{host}"), "yes".to_owned())),
            Op::Act(Act::NodeAwaited { node }) => cluster.push((format!("awaited:{node}"), "yes".to_owned())),
            // Known by what is not there.
            Op::Act(Act::NodeDelete { .. }) => {}
            Op::Act(Act::KubeadmReset { .. }) => here.push(("kubernetes".to_owned(), "reset".to_owned())),
            // Looked at and carried out by keys that are known only when it is.
            Op::Reset(_) | Op::MoveAside(_) => {}
        }
        Ok(Want { host: here.into_iter().collect(), cluster: cluster.into_iter().collect() })
    }

    fn want_unit(&self, host: &str, unit: &Unit) -> Result<Vec<(String, String)>, String> {
        let here = self.host(host)?;
        let runs = unit.running.unwrap_or_else(|| here.runs(&unit.name));
        let words = match (unit.enabled, runs) {
            (true, true) => "enabled running",
            (true, false) => "enabled stopped",
            (false, true) => "disabled running",
            (false, false) => "disabled stopped",
        };
        let mut want = vec![(format!("unit:{}", unit.name), words.to_owned())];
        if unit.running == Some(true) {
            for path in &unit.loaded {
                // A path that is not there cannot have been loaded: wanted as such, and refused when it is started.
                let now = here.state.get(&format!("path:{path}")).map_or("missing", String::as_str);
                want.push((format!("loaded:{}:{path}", unit.name), now.to_owned()));
            }
        }
        Ok(want)
    }
}

fn path(path: &str, value: String) -> (String, String) {
    (format!("path:{path}"), value)
}

fn content_digest(content: &Content, plan: &Plan, slots: &SlotValues) -> Result<Digest, String> {
    match content {
        Content::Text { digest } if plan.texts.contains_key(digest) => Ok(*digest),
        Content::Text { digest } => Err(format!("the plan has no text {digest}")),
        Content::Slot { slot } => {
            slots.get(slot).map(Digest::of).ok_or_else(|| format!("slot {} was not given to the step", slot.0))
        }
    }
}
