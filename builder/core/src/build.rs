//! The whole build, as a table of contents.

use std::path::Path;

use kubexm_archive::{Options, Written};
use kubexm_manifests::{Catalogue, Zone, require};
use kubexm_spec::event::EventKind;
use kubexm_spec::{Cluster, Lock};

use crate::origins::Origins;
use crate::{BuildError, Report, fetch, lock, pack, resolve};

/// What to build, from where, to where.
pub struct Request<'a> {
    /// Parsed from `cluster_yaml`.
    pub cluster: &'a Cluster,
    /// Goes into the bundle as it is.
    pub cluster_yaml: &'a str,
    /// With overlays.
    pub catalogue: &'a Catalogue,
    /// Where origins are rewritten to.
    pub zone: &'a Zone,
    /// The bundle's file.
    pub target: &'a Path,
    /// How many artifacts are fetched at once.
    pub jobs: usize,
    /// How the archive is written.
    pub options: Options,
    /// `kubexm-bundle 0.1.0`.
    pub tool: &'a str,
}

/// A bundle that is on disk.
#[derive(Debug)]
pub struct Built {
    /// Size and digests of the file.
    pub written: Written,
    /// What is in it.
    pub lock: Lock,
}

/// require → resolve → lock → fetch → pack.
pub async fn build(request: &Request<'_>, origins: &Origins, report: Report<'_>) -> Result<Built, BuildError> {
    let phase = |name: &str| report(EventKind::Phase { name: name.to_owned() });
    let requirements = require(request.cluster, request.catalogue)?;
    let used = request.catalogue.used_by(&requirements);
    let resolution = resolve::resolve(&requirements, request.zone);
    lock::check_local(&resolution, origins)?;
    phase("lock");
    let locked = lock::lock(&resolution, origins, request.jobs, report).await?;
    phase("fetch");
    let fetched = fetch::fetch(locked, &resolution, origins, request.jobs, report).await?;
    phase("pack");
    let inputs = pack::Inputs {
        cluster_yaml: request.cluster_yaml,
        catalogue: &used,
        requirements: &requirements,
        tool: request.tool,
    };
    let written = pack::pack(&fetched, &inputs, request.target, &request.options, report)?;
    Ok(Built { written, lock: fetched.lock })
}
