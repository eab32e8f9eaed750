//! The last stage: one file of everything that is needed.

use std::path::Path;

use kubexm_archive::Options;
use kubexm_spec::Lock;
use tokio::runtime::Handle;

use super::{Needed, Session};
use crate::BuildError;
use crate::base::Base;
use crate::build::{Built, Request, build};
use crate::origins::Origins;

/// What is built, and where to.
pub struct Building<'a> {
    /// Build just this; refused when something else is needed.
    pub locked: Option<&'a Lock>,
    /// The bundle's file.
    pub target: &'a Path,
    /// The folder that the bundle is then copied into.
    pub hand_over: Option<&'a Path>,
    /// How many artifacts are fetched at once.
    pub jobs: usize,
    /// How the archive is written.
    pub options: Options,
    /// What need not be carried, since it is on the far side already.
    pub base: Option<&'a Base>,
    /// Whether the bundle says where its artifacts are from.
    pub sources: bool,
    /// The program that builds, as the bundle names it: `kubexm-bundle 0.1.0`.
    pub tool: &'a str,
}

impl Session {
    /// Locks (unless there is a lock), fetches and packs. Blocks; `runtime` drives what goes over the network. Not to be called
    /// from one of its tasks.
    pub fn build(
        &self,
        needed: &Needed,
        origins: &Origins,
        building: &Building<'_>,
        runtime: &Handle,
    ) -> Result<Built, BuildError> {
        let Building { locked, target, hand_over, jobs, options, base, sources, tool } = *building;
        let Needed { cluster, cluster_yaml, catalogue, zone, .. } = needed;
        let request = Request {
            cluster,
            cluster_yaml,
            catalogue,
            zone,
            locked,
            target,
            hand_over,
            jobs,
            options,
            base,
            sources,
            tool,
        };
        build(&request, origins, runtime, &*self.events)
    }
}
