//! Acts on a simulated host whose effects do not follow from their data, since kubeadm (`nodes`) or the cluster has
//! them. Every other act is simulated by the resources that it touches, like an op.

use kubexm_plan::op::{
    Act, KubeadmJoin, KubeadmUpgrade, MemberRemove, NodeDelete, NodeDrain, NodeLookup, NodeUncordon, ScriptRun,
    ScriptUndo,
};
use kubexm_plan::{Step, Wave};

use super::keys::{Keys, Want};
use super::names::{KUBELET_UNIT, SOMEBODY, UPGRADED};
use super::world::World;
use crate::link::SlotValues;

impl World {
    /// The keys from which it is later observed that an act is done.
    pub(super) fn want_act(host: &str, act: &Act, want: &mut Want) {
        let (part, key, value) = match act {
            Act::KubeadmInit(_) => (&mut want.cluster, "initialised".to_owned(), host),
            Act::KubeadmJoin(_) => (&mut want.cluster, format!("joined:{host}"), "yes"),
            Act::NodeLookup(NodeLookup { node }) => (&mut want.cluster, format!("awaited:{node}"), "yes"),
            Act::NodeDrain(NodeDrain { node, cordoned_by, .. }) => {
                (&mut want.cluster, format!("cordoned:{node}"), cordoned_by.as_deref().unwrap_or(SOMEBODY))
            }
            Act::KubeadmReset(_) => (&mut want.host, "kubernetes".to_owned(), "reset"),
            Act::KubeadmUpgrade(KubeadmUpgrade { version, .. }) => {
                (&mut want.host, UPGRADED.to_owned(), version.as_str())
            }
            Act::ScriptRun(ScriptRun { id, .. }) => (&mut want.host, format!("script:{id}"), "done"),
            // That something was deleted is observed from its absence.
            _ => return,
        };
        part.insert(key, value.to_owned());
    }

    /// Whether an act is done. `keys`: whether the keys of [`Self::want_act`] are as desired.
    pub(super) fn act_holds(&self, act: &Act, keys: bool) -> bool {
        match act {
            Act::NodeDelete(NodeDelete { node }) => !self.is_node(node),
            Act::NodeLookup(NodeLookup { node }) => keys || self.is_node(node),
            Act::NodeDrain(NodeDrain { node, unless_kubelet, .. }) => {
                keys || !self.is_node(node) || unless_kubelet.as_deref() == Some(self.kubelet_version(node))
            }
            Act::NodeUncordon(NodeUncordon { node, .. }) => !self.cluster.contains_key(&format!("cordoned:{node}")),
            Act::MemberRemove(MemberRemove { name, .. }) => !self.members().any(|member| member == name),
            _ => keys,
        }
    }

    /// kubeadm's own preflight, in addition to the needs that the act declares.
    pub(super) fn refuse_act(&self, host: &str, act: &Act, step: &Step) -> Result<(), String> {
        match (act, self.cluster.get("initialised")) {
            (Act::KubeadmInit(_), Some(by)) => Err(format!("{by} has initialised the cluster already")),
            (Act::KubeadmInit(_) | Act::KubeadmJoin(_), _) => self.refuse_kubeadm(host, step),
            (Act::KubeadmUpgrade(upgrade), _) => self.refuse_upgrade(host, step, upgrade),
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
        let Act::KubeadmJoin(KubeadmJoin { slots: reads, .. }) = act else { return Ok(()) };
        if fails {
            self.invalidate_values(reads, slots);
            return Ok(());
        }
        self.refuse_values(reads, slots)
    }

    /// Effects of an act in addition to its own key.
    pub(super) fn apply_act(&mut self, host: &str, act: &Act, step: &Step) -> Result<(), String> {
        match act {
            Act::KubeadmInit(_) => self.make_node(host, step, true),
            Act::KubeadmJoin(join) => self.make_node(host, step, join.control_plane),
            Act::NodeDelete(NodeDelete { node }) => {
                self.drop_node(node);
                Ok(())
            }
            Act::MemberRemove(MemberRemove { name, .. }) => {
                self.cluster.remove(&format!("member:{name}"));
                Ok(())
            }
            Act::NodeUncordon(NodeUncordon { node, .. }) => {
                self.cluster.remove(&format!("cordoned:{node}"));
                Ok(())
            }
            Act::KubeadmUpgrade(upgrade) => self.upgrade_node(host, step, upgrade),
            // KubeadmReset resets the host before its key is set.
            _ => Ok(()),
        }
    }

    /// Rolls back an act whose step restores the state before it.
    pub(super) fn restore_act(&mut self, host: &str, act: &Act, cluster: &Keys, wave: Wave) -> Result<(), String> {
        match act {
            Act::KubeadmInit(_) | Act::KubeadmJoin(_) if wave == Wave::Stop => {
                let was_done = cluster.values().all(Option::is_some);
                if was_done { Ok(()) } else { self.reset(host) }
            }
            _ => Ok(()),
        }
    }

    /// Executes an act that is the rollback of a step.
    pub(super) fn undo_act(&mut self, host: &str, act: &Act) -> Result<(), String> {
        match act {
            Act::KubeadmReset(_) => self.reset(host),
            Act::NodeDelete(NodeDelete { node }) => {
                if self.cluster.contains_key("initialised") {
                    self.drop_node(node);
                }
                Ok(())
            }
            Act::NodeUncordon(NodeUncordon { node, .. }) => {
                self.cluster.remove(&format!("cordoned:{node}"));
                Ok(())
            }
            Act::KubeadmUpgradeUndo(_) => self.restore_kubelet_config(host),
            Act::ScriptUndo(ScriptUndo { id, .. }) => self.remove(host, &format!("script:{id}")),
            other => Err(format!("{} rolls nothing back", other.title())),
        }
    }
}
