//! Sample clusters, one for each shape that makes a different plan.

#![allow(clippy::expect_used, reason = "a sample that cannot be planned is a failed test")]

mod fleets;
mod plans;
mod sample;

use kubexm_plan::Pipeline;
use kubexm_spec::cluster::{EtcdKind, RegistryKind};

pub use fleets::{ADOPTED, ADOPTED_ETCD, FLEETS, LOST, RENEWED, SAMPLES};
pub use sample::{MOVED, Sample};

/// The sample whose name begins so: places in [`FLEETS`] change with every new one.
pub fn named(start: &str) -> &'static Sample {
    SAMPLES.iter().chain(&FLEETS).find(|sample| sample.name.starts_with(start)).expect("a sample of that name")
}

impl Sample {
    /// Whether a pipeline has anything to do in it.
    pub fn is_for(&self, pipeline: Pipeline) -> bool {
        match pipeline {
            Pipeline::Create | Pipeline::CertsRenew | Pipeline::Reset => true,
            // What is in an etcd of the user's is not restored.
            Pipeline::Restore => self.cluster().etcd.kind != EtcdKind::External,
            // One that kubeadm could have made; a host without a node's role is not adopted.
            Pipeline::Adopt => [SAMPLES[0].name, FLEETS[0].name].contains(&self.name),
            // With etcd of kubeadm's, where one host begins alone and others join.
            Pipeline::CreateFromBackup => [SAMPLES[0].name, FLEETS[0].name].contains(&self.name),
            Pipeline::AddNode => !self.added.is_empty(),
            Pipeline::DeleteNode => !self.deleted.is_empty(),
            Pipeline::Upgrade => self.upgraded.is_some(),
            // What an upgrade has left.
            Pipeline::RegistryPrune => {
                let ours = [RegistryKind::Embedded, RegistryKind::Registry, RegistryKind::Harbor];
                self.upgraded.is_some() && ours.contains(&self.cluster().registry.kind)
            }
            Pipeline::AddonsApply => self.spec.contains("addons:") || self.spec.contains("storage:"),
        }
    }
}
