//! What acts do on a simulated host beyond the change of what they touch: their [`Effect`]s. Without one, an act is
//! simulated by the resources that it touches, like an op.

use kubexm_plan::op::{Act, Effect};
use kubexm_plan::{Step, Wave};

use super::keys::{Keys, Want};
use super::names::{KUBELET_UNIT, SOMEBODY, UPGRADED, left};
use super::world::World;
use crate::link::SlotValues;

impl World {
    /// The keys from which it is later observed that an act is done.
    pub(super) fn want_act(host: &str, act: &Act, want: &mut Want) {
        let (part, key, value) = match act.effect() {
            Effect::InitialisesCluster { .. } => (&mut want.cluster, "initialised".to_owned(), host),
            Effect::JoinsNode { .. } => (&mut want.cluster, format!("joined:{host}"), "yes"),
            Effect::LooksUpNode { node } => (&mut want.cluster, format!("awaited:{node}"), "yes"),
            Effect::CordonsNode { node, cordoned_by } => (&mut want.cluster, format!("cordoned:{node}"), cordoned_by),
            Effect::DrainsNode { node, .. } => (&mut want.cluster, drained(node), "yes"),
            Effect::ResetsNode => (&mut want.host, "kubernetes".to_owned(), "reset"),
            Effect::UpgradesNode { version, .. } => (&mut want.host, UPGRADED.to_owned(), version),
            Effect::LeavesMark { id } => (&mut want.host, mark(id), "done"),
            Effect::AddsMember { name } => (&mut want.cluster, added(name), "yes"),
            Effect::PromotesMember { name } => (&mut want.cluster, promoted(name), "yes"),
            // That something was removed is observed from its absence.
            Effect::DeletesNode { .. }
            | Effect::UncordonsNode { .. }
            | Effect::RemovesMember { .. }
            | Effect::RestoresKubeletConfig
            | Effect::RemovesMark { .. }
            | Effect::OfWhatItTouches => return,
        };
        part.insert(key, value.to_owned());
    }

    /// Whether an act is done. `keys`: whether the keys of [`Self::want_act`] are as desired.
    pub(super) fn act_holds(&self, act: &Act, keys: bool) -> bool {
        match act.effect() {
            Effect::DeletesNode { node } => !self.is_node(node),
            Effect::LooksUpNode { node } => keys || self.is_node(node),
            Effect::CordonsNode { node, .. } => {
                !self.is_node(node) || self.cluster.contains_key(&format!("cordoned:{node}"))
            }
            Effect::DrainsNode { node, unless, .. } => keys || !self.is_node(node) || self.has_all(node, unless),
            Effect::UncordonsNode { node } => !self.cluster.contains_key(&format!("cordoned:{node}")),
            Effect::RemovesMember { name } => {
                !self.members().any(|member| member == name) && !self.own_voters().any(|(host, _)| host == name)
            }
            _ => keys,
        }
    }

    /// kubeadm's own preflight, in addition to the needs that the act declares.
    pub(super) fn refuse_act(&self, host: &str, act: &Act, step: &Step) -> Result<(), String> {
        match (act.effect(), self.cluster.get("initialised")) {
            (Effect::InitialisesCluster { .. }, Some(by)) => Err(format!("{by} has initialised the cluster already")),
            (Effect::InitialisesCluster { .. } | Effect::JoinsNode { .. }, _) => self.refuse_kubeadm(host, step),
            (Effect::UpgradesNode { version, of }, _) => self.refuse_upgrade(host, step, (version, of)),
            _ => Ok(()),
        }
    }

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

    /// A join needs valid values; a failed one uses them up.
    pub(super) fn refuse_join(&mut self, act: &Act, slots: &SlotValues, fails: bool) -> Result<(), String> {
        let Effect::JoinsNode { slots: reads, .. } = act.effect() else { return Ok(()) };
        if fails {
            self.invalidate_values(reads, slots);
            return Ok(());
        }
        self.refuse_values(reads, slots)
    }

    /// Effects of an act in addition to its own key.
    pub(super) fn apply_act(&mut self, host: &str, act: &Act, step: &Step) -> Result<(), String> {
        match act.effect() {
            Effect::InitialisesCluster { config } => {
                if let Some(version) = self.configured_version(host, config) {
                    self.cluster.insert("serverVersion".to_owned(), version);
                }
                self.make_node(host, step, true)
            }
            Effect::JoinsNode { control_plane, .. } => self.make_node(host, step, control_plane),
            Effect::DeletesNode { node } => {
                self.drop_node(node);
                Ok(())
            }
            Effect::RemovesMember { name } => {
                self.cluster.remove(&format!("member:{name}"));
                self.cluster.remove(&added(name));
                self.cluster.remove(&promoted(name));
                if self.own_voters().any(|(host, _)| host == name) {
                    self.cluster.insert(left(name), "yes".to_owned());
                }
                Ok(())
            }
            Effect::AddsMember { name } => {
                self.cluster.remove(&left(name));
                Ok(())
            }
            Effect::DrainsNode { node, cordoned_by, .. } => {
                let by = cordoned_by.unwrap_or(SOMEBODY).to_owned();
                self.cluster.entry(format!("cordoned:{node}")).or_insert(by);
                Ok(())
            }
            Effect::UncordonsNode { node } => {
                self.uncordon(node);
                Ok(())
            }
            Effect::UpgradesNode { version, of } => self.upgrade_node(host, step, (version, of)),
            // The host is reset before the key of that is set.
            _ => Ok(()),
        }
    }

    /// Rolls back an act whose step restores the state before it.
    pub(super) fn restore_act(&mut self, host: &str, act: &Act, cluster: &Keys, wave: Wave) -> Result<(), String> {
        match act.effect() {
            Effect::InitialisesCluster { .. } | Effect::JoinsNode { .. } if wave == Wave::Stop => {
                let was_done = cluster.values().all(Option::is_some);
                if was_done { Ok(()) } else { self.reset(host) }
            }
            _ => Ok(()),
        }
    }

    /// Executes an act that is the rollback of a step.
    pub(super) fn undo_act(&mut self, host: &str, act: &Act) -> Result<(), String> {
        match act.effect() {
            Effect::ResetsNode => self.reset(host),
            Effect::DeletesNode { node } => {
                if self.cluster.contains_key("initialised") {
                    self.drop_node(node);
                }
                Ok(())
            }
            Effect::UncordonsNode { node } => {
                self.uncordon(node);
                Ok(())
            }
            Effect::RemovesMember { name } => {
                self.cluster.remove(&added(name));
                self.cluster.remove(&promoted(name));
                Ok(())
            }
            Effect::RestoresKubeletConfig => self.restore_kubelet_config(host),
            Effect::RemovesMark { id } => self.remove(host, &mark(id)),
            _ => Err(format!("{} rolls nothing back", act.title())),
        }
    }

    /// Pods come back to a node that is schedulable.
    fn uncordon(&mut self, node: &str) {
        self.cluster.remove(&format!("cordoned:{node}"));
        self.cluster.remove(&drained(node));
    }
}

/// The key of a node without pods.
fn drained(node: &str) -> String {
    format!("drained:{node}")
}

/// The key of a member that a run has added to etcd.
fn added(name: &str) -> String {
    format!("added:{name}")
}

/// The key of one that a run has given its vote.
fn promoted(name: &str) -> String {
    format!("promoted:{name}")
}

/// The key of what runs once.
fn mark(id: &str) -> String {
    format!("script:{id}")
}
