//! The bundle's helm, unpacked while hosts are connected and looked at: by the time there is a plan, it is there.

use std::io;
use std::sync::{Mutex, PoisonError};

use kubexm_plan::Pipeline;
use tokio::task::JoinHandle;

use super::helm::{Helm, Packed};
use crate::bundle::opened::Opened;
use crate::home::ClusterHome;

/// A helm that is being unpacked, or none.
#[derive(Default)]
pub(crate) struct Ahead(Mutex<Option<JoinHandle<io::Result<Helm>>>>);

impl Ahead {
    /// Begins where charts are what it is all about. Other pipelines often render nothing, or take minutes.
    pub(crate) fn begin(opened: Option<&Opened>, home: &ClusterHome) -> Self {
        let packed = opened
            .filter(|opened| opened.pipeline() == Pipeline::AddonsApply && opened.may_run_here())
            .and_then(|opened| Packed::of(opened.bundle(), opened.catalogue()));
        Self(Mutex::new(packed.map(|packed| tokio::spawn(packed.unpacked(home.programs().to_owned())))))
    }

    /// The bundle's helm; none if it has none for this machine. It is given once, and unpacked now if it was not before.
    pub(crate) async fn helm(&self, opened: &Opened, home: &ClusterHome) -> io::Result<Option<Helm>> {
        let begun = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match begun {
            Some(begun) => begun.await.map_err(io::Error::other)?.map(Some),
            None => match Packed::of(opened.bundle(), opened.catalogue()) {
                Some(packed) => packed.unpacked(home.programs().to_owned()).await.map(Some),
                None => Ok(None),
            },
        }
    }
}
