//! Which objects an apply would change or create. The API server decides (a server-side apply that is not carried out): it knows
//! defaults and spellings, and leaves fields alone that nobody sets. As `kubectl diff --server-side`, without a process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use kubexm_charts::objects::Identity;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::api::Failed;
use super::credentials::Credentials;
use super::discovery::Served;
use super::{api, discovery};
use crate::{Machine, OpError};

/// Objects that are compared at once.
const AT_ONCE: usize = 4;
/// What of a name has to be written otherwise in a path (RFC 3986, 2.3: unreserved; and `:`, which many names of roles have).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Asks a machine's API server directly.
pub(crate) struct Comparison<'m> {
    machine: &'m Machine,
    api: Arc<Credentials>,
    served: Vec<Served>,
}

/// What a comparison has found.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// In the form in which kubectl names them: `apps.v1.Deployment.default.web`; `v1.Namespace..web` outside of namespaces.
    pub changed: Vec<String>,
    /// Those that cannot be compared, and why: a kind that is not served, a webhook that answers no dry run.
    pub incomparable: Vec<String>,
    /// There was no time for all of them.
    pub late: bool,
}

impl<'m> Comparison<'m> {
    /// None where kubectl has to be asked.
    pub(crate) fn of(machine: &'m Machine) -> Result<Option<Self>, OpError> {
        let Some(api) = api::credentials(machine)? else { return Ok(None) };
        Ok(discovery::served(machine)?.map(|served| Self { machine, api, served }))
    }

    /// Compares the objects of a namespace as they would be if `manager` applied them. It is an error if the API server does not say.
    pub(crate) fn objects(
        &self,
        (manager, namespace): (&str, &str),
        objects: &[Value],
        end: Instant,
    ) -> Result<Compared, OpError> {
        let (next, found) = (AtomicUsize::new(0), Mutex::new((Compared::default(), None)));
        let one = || {
            while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                let compared = (Instant::now() < end).then(|| self.compare((manager, namespace), object));
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                match compared {
                    None => found.0.late = true,
                    Some(Ok(None)) => {}
                    Some(Ok(Some(name))) => found.0.changed.push(name),
                    Some(Err(Failed::Refused(why))) => {
                        found.0.incomparable.push(format!("{}: {why}", Identity::of(object)));
                    }
                    Some(Err(Failed::Silent(error))) => {
                        found.1.get_or_insert(error);
                    }
                }
                if found.1.is_some() {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..AT_ONCE.min(objects.len()) {
                scope.spawn(one);
            }
            one();
        });
        let (mut found, error) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.changed.sort_unstable();
        found.incomparable.sort_unstable();
        error.map_or(Ok(found), Err)
    }

    /// The name of an object that would be another one.
    fn compare(&self, (manager, namespace): (&str, &str), object: &Value) -> Result<Option<String>, Failed> {
        let Identity { namespace: own, name, kind, .. } = Identity::of(object);
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let of_kind = |one: &&Served| one.api.version == version && one.api.kind == kind;
        let Some(Served { api: known, .. }) = self.served.iter().find(of_kind) else {
            return Err(Failed::Refused(format!("nobody serves {version} {kind}")));
        };
        let namespace = if own.is_empty() { namespace } else { &own };
        // What a release says comes from a Secret, and whoever may make one must not say where a request goes.
        if !is_name(&name) || known.namespaced && !is_label(namespace) {
            return Err(Failed::Refused("it has a name that no object can have".to_owned()));
        }
        let group = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let within = if known.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let path = format!("{group}{within}/{}/{}", known.resource, utf8_percent_encode(&name, SEGMENT));
        let live = api::find(self.machine, &self.api, &path)?;
        let merged = api::dry_apply(self.machine, &self.api, &path, (manager, object))?;
        if live.map(unmanaged) == Some(unmanaged(merged)) {
            return Ok(None);
        }
        // kubectl takes the namespace of what is in none as the object says it.
        let namespace = if known.namespaced { namespace } else { &own };
        Ok(Some(format!("{}.{kind}.{namespace}.{name}", version.replace('/', "."))))
    }
}

/// Whether an object can be called so (`path.ValidatePathSegmentName` of apimachinery: roles are called almost anything).
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

/// RFC 1123, as names of namespaces are.
fn is_label(name: &str) -> bool {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= 63 && name.chars().all(known)
}

/// Who has set which field differs with each apply.
fn unmanaged(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}
