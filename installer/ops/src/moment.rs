//! What looks of one moment share: a question that many of them have is asked once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

use crate::kube::api::Api;
use crate::ops::image_loaded::Images;
use crate::{Machine, OpError};

/// The answers so far. It is made for one survey and dropped with it: nothing in it is older.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    references: Vec<String>,
    images: OnceLock<Option<Images>>,
    api: OnceLock<Option<Api>>,
    objects: Mutex<BTreeMap<String, Arc<OnceLock<Option<Value>>>>>,
}

impl Moment {
    /// A moment in which these images will be asked for.
    pub(crate) fn with_images(references: Vec<String>) -> Self {
        Self { references, ..Self::default() }
    }

    /// The images that containerd has; none when it does not answer.
    pub(crate) fn images(&self, machine: &Machine) -> Option<&Images> {
        self.images.get_or_init(|| Images::ask(machine, &self.references).ok()).as_ref()
    }

    /// What the API server answers at a path; none where kubectl must be asked: it cannot be reached so, or has no such
    /// object.
    pub(crate) fn object(&self, machine: &Machine, path: &str) -> Option<Value> {
        let api = self.api.get_or_init(|| Api::of(machine).ok().flatten()).as_ref()?;
        let cell = {
            let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(objects.entry(path.to_owned()).or_default())
        };
        let ask = || -> Result<Option<Value>, OpError> { api.get(machine, path) };
        cell.get_or_init(|| ask().ok().flatten()).clone()
    }
}
