//! The whole build, as a table of contents.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use kubexm_archive::{Options, Written};
use kubexm_manifests::{Catalogue, Zone, require};
use kubexm_spec::event::EventKind;
use kubexm_spec::lock::LockItem;
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

/// Bytes of many transfers as one number.
pub struct Total<'a> {
    what: &'static str,
    total: u64,
    done: Mutex<HashMap<String, u64>>,
    report: Report<'a>,
}

impl<'a> Total<'a> {
    /// A sum that begins at nothing.
    pub fn new(what: &'static str, total: u64, report: Report<'a>) -> Self {
        Self { what, total, done: Mutex::default(), report }
    }

    /// One transfer has come so far (bytes).
    pub fn at(&self, transfer: &str, bytes: u64) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.insert(transfer.to_owned(), bytes);
        let sum = done.values().sum::<u64>().min(self.total);
        drop(done);
        (self.report)(EventKind::Progress {
            what: self.what.to_owned(),
            done: sum,
            total: Some(self.total),
            unit: "bytes".to_owned(),
        });
    }

    /// A transfer that stood for several blobs is over.
    pub fn forget(&self, transfer: &str) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).remove(transfer);
    }

    /// Every blob of an item is there, however it came.
    pub fn item_done(&self, item: &LockItem) {
        for (digest, size) in item.blobs() {
            self.at(&digest.hex(), size);
        }
    }
}
