//! A release as the cluster has it, read from helm's own Secrets: some milliseconds, and not a run of helm.

use kubexm_charts::stored::{self, Release, Revision};
use kubexm_plan::op::{FoundRelease, HelmRelease};
use kubexm_spec::{Digest, rendering};
use serde_json::Value;

use super::helm;
use crate::{Machine, OpError, kube};

/// The revisions of a release, the oldest first.
pub(super) fn history(machine: &Machine, op: &HelmRelease) -> Result<Vec<Revision>, OpError> {
    let HelmRelease { name, namespace, .. } = op;
    let path = format!("/api/v1/namespaces/{namespace}/secrets?labelSelector=owner%3Dhelm%2Cname%3D{name}");
    Ok(kube::raw(machine, &path)?.map(stored::revisions).unwrap_or_default())
}

pub(super) fn has_namespace(machine: &Machine, namespace: &str) -> Result<bool, OpError> {
    Ok(kube::raw(machine, &format!("/api/v1/namespaces/{namespace}"))?.is_some())
}

/// The content of a revision.
pub(super) fn read(revision: &Revision) -> Result<Release, OpError> {
    revision.read().map_err(|error| OpError::other(error.to_string()))
}

/// The objects of a release; one that cannot be read was not written by helm.
pub(super) fn objects(release: &Release) -> Result<Vec<Value>, OpError> {
    let unreadable = |error: kubexm_charts::documents::Unreadable| {
        OpError::other(format!("the release's manifest cannot be read: {}: {}", error.place, error.problem))
    };
    release.objects().map_err(unreadable)
}

/// The state of a revision, without what has drifted.
pub(super) fn found(revision: &Revision) -> Result<FoundRelease, OpError> {
    let release = read(revision)?;
    let blob = revision.label(helm::LABEL);
    Ok(FoundRelease {
        revision: revision.number(),
        status: revision.status().to_owned(),
        chart: release.chart(),
        blob: (!blob.is_empty()).then(|| blob.to_owned()),
        values: rendering::digest(&stored::comparable(&release.values())),
        objects: Digest::of(release.manifest()),
        drifted: Vec::new(),
    })
}
