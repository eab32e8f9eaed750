//! Queries that the observations of one survey share: each is sent once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

use crate::image_list::ImageList;
use crate::kube::credentials::Credentials;

/// The answers so far. It is created for one survey and dropped with it, so nothing in it is older.
#[derive(Debug, Default)]
pub(crate) struct SurveyScope {
    references: Vec<String>,
    images: OnceLock<Option<ImageList>>,
    api: OnceLock<Option<Arc<Credentials>>>,
    objects: Mutex<BTreeMap<String, Arc<OnceLock<Option<Value>>>>>,
}

impl SurveyScope {
    /// A survey of steps that need these images.
    pub(crate) fn with_images(references: Vec<String>) -> Self {
        Self { references, ..Self::default() }
    }

    /// The images of the runtime; `list` is called once, with the survey's references.
    pub(crate) fn images(&self, list: impl FnOnce(&[String]) -> Option<ImageList>) -> Option<&ImageList> {
        self.images.get_or_init(|| list(&self.references)).as_ref()
    }

    /// Credentials for the API server; `read` is called once.
    pub(crate) fn api(&self, read: impl FnOnce() -> Option<Arc<Credentials>>) -> Option<&Credentials> {
        self.api.get_or_init(read).as_deref()
    }

    /// An object of the API at a path; `get` is called once for each path.
    pub(crate) fn object(&self, path: &str, get: impl FnOnce() -> Option<Value>) -> Option<Value> {
        let cell = {
            let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(objects.entry(path.to_owned()).or_default())
        };
        cell.get_or_init(get).clone()
    }
}
