//! Which objects an apply would change or create. The API server decides (a server-side apply that is not carried out): it knows
//! defaults and spellings, and leaves fields alone that nobody sets. As `kubectl diff --server-side`, without a process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kubexm_charts::objects::Identity;
use serde_json::Value;

use super::credentials::Credentials;
use super::discovery::Served;
use super::{api, discovery};
use crate::{Machine, OpError};

/// Objects that are compared at once.
const AT_ONCE: usize = 4;

/// What a comparison has found.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// In the form in which kubectl names them: `apps.v1.Deployment.default.web`; `v1.Namespace..web` outside of namespaces.
    pub changed: Vec<String>,
    /// Those that cannot be compared, and why: a kind that is not served, a webhook that answers no dry run.
    pub failed: Vec<String>,
    /// There was no time for all of them.
    pub late: bool,
}

/// Compares the objects of a namespace as they would be if `manager` applied them; none where kubectl has to be asked.
pub(crate) fn objects(
    machine: &Machine,
    (manager, namespace): (&str, &str),
    objects: &[Value],
    end: Option<Instant>,
) -> Result<Option<Compared>, OpError> {
    let Some(api) = api::credentials(machine)? else { return Ok(None) };
    let Some(served) = discovery::served(machine)? else { return Ok(None) };
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Compared::default()));
    let one = || {
        while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
            let in_time = end.is_none_or(|end| Instant::now() < end);
            let compared = in_time.then(|| compare(machine, (&api, &served), (manager, namespace), object));
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            match compared {
                None => found.late = true,
                Some(Ok(None)) => {}
                Some(Ok(Some(name))) => found.changed.push(name),
                Some(Err(error)) => found.failed.push(format!("{}: {}", Identity::of(object), error.full())),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..AT_ONCE.min(objects.len()) {
            scope.spawn(one);
        }
        one();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.changed.sort_unstable();
    found.failed.sort_unstable();
    Ok(Some(found))
}

/// The name of an object that would be another one.
fn compare(
    machine: &Machine,
    (api, served): (&Credentials, &[Served]),
    (manager, namespace): (&str, &str),
    object: &Value,
) -> Result<Option<String>, OpError> {
    let Identity { namespace: own, name, kind, .. } = Identity::of(object);
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let of_kind = |one: &&Served| one.api.version == version && one.api.kind == kind;
    let Some(Served { api: known, .. }) = served.iter().find(of_kind) else {
        return Err(OpError::other(format!("nobody serves {version} {kind}")));
    };
    if name.is_empty() || name.chars().any(|c| !c.is_ascii_alphanumeric() && !"-._:".contains(c)) {
        return Err(OpError::other("it has no name that an object can have"));
    }
    let namespace = match known.namespaced {
        false => "",
        true if own.is_empty() => namespace,
        true => &own,
    };
    let group = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let within = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    let path = format!("{group}{within}/{}/{name}", known.resource);
    let live = api::get(machine, api, &path)?;
    let merged = api::dry_apply(machine, api, &path, (manager, object))?;
    // Its namespace is not there.
    let merged = merged.ok_or_else(|| OpError::other(format!("{path} cannot be made: 404")))?;
    let same = live.is_some_and(|live| unmanaged(live) == unmanaged(merged));
    Ok((!same).then(|| format!("{}.{kind}.{namespace}.{name}", version.replace('/', "."))))
}

/// Who has set which field differs with each apply.
fn unmanaged(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}
