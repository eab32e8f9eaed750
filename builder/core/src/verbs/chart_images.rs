//! Images of charts for verbs that fetch nothing: those of the last rendering with these values, where a lock or the cache has it.

use std::path::Path;

use kubexm_spec::{ArtifactKey, Lock};
use serde::Serialize;

use crate::charts;
use crate::session::{Needed, Session};

/// A chart or YAML add-on and its images; none where only rendering could tell.
pub type Known = (ArtifactKey, Option<Vec<String>>);

/// The same as an answer.
#[derive(Debug, Serialize)]
pub struct ChartImages {
    pub key: ArtifactKey,
    pub images: Option<Vec<String>>,
}

/// Looks them up; writes nothing, and nothing goes over the network.
pub fn known(session: &Session, needed: &Needed, locked: Option<&Lock>, cache: Option<&Path>) -> Vec<Known> {
    let store = session.store_at_hand(cache);
    charts::known(&needed.cluster, &needed.requirements, locked, store.as_ref())
}
