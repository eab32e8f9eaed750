//! What is installed in the cluster beyond its own: releases of helm, whoever made them, and what add-ons of YAML have applied.
//! Read-only.

use std::time::{Duration, Instant};

use kubexm_charts::stored::Revision;
use kubexm_plan::addons::{AddonsAsk, InstalledAddon, InstalledAddons, InstalledKind, masked, secrets_of};
use kubexm_plan::op::{HelmRelease, Manifests};
use kubexm_spec::Digest;
use serde_json::Value;

use crate::installed_releases::{self, Count, Last, Listed};
use crate::kube::apis;
use crate::ops::{helm_release, manifests};
use crate::{Machine, OpError, kube, paths};

/// How long releases are read and objects compared, of all add-ons together: whoever may make Secrets in any namespace can have one looked
/// at as a release.
const COMPARING: Duration = Duration::from_secs(100);
/// What is answered of objects, of all add-ons together, in bytes of JSON.
const MOST_OF_OBJECTS: usize = 24 << 20;

/// What is left of the limits of one answer.
struct Left {
    until: Instant,
    objects: usize,
}

impl Left {
    /// The objects of an add-on, masked; none if there are too many.
    fn shown(&mut self, objects: Vec<Value>, salt: &str) -> Option<Vec<Value>> {
        let objects: Vec<Value> = objects.into_iter().map(|object| masked(object, salt)).collect();
        let size: usize = objects.iter().map(|object| object.to_string().len()).sum();
        self.objects = self.objects.checked_sub(size)?;
        Some(objects)
    }

    fn compared(
        &self,
        drifted: impl FnOnce() -> Result<Vec<String>, OpError>,
    ) -> (Option<Vec<String>>, Option<String>) {
        if Instant::now() >= self.until {
            return (None, Some(took_too_long()));
        }
        compared(drifted())
    }
}

fn took_too_long() -> String {
    format!("comparing the add-ons before it took {} s", COMPARING.as_secs())
}

const TOO_LARGE: &str = "its objects are more than one answer may have";

/// Looks at the cluster from a control plane.
///
/// # Errors
/// The host is none, or the API server does not answer.
pub fn look(machine: &Machine, ask: &AddonsAsk) -> Result<InstalledAddons, OpError> {
    if !kube::has_admin_conf(machine) {
        return Err(OpError::other(format!("{} is missing: this host is no control plane", paths::ADMIN_CONF)));
    }
    let version = kube::raw(machine, "/version")?;
    let kubernetes = version.as_ref().and_then(|version| version["gitVersion"].as_str()).unwrap_or_default();
    let apis = if ask.apis { apis::names(machine)? } else { Vec::new() };
    let mut left = Left { until: Instant::now() + COMPARING, objects: MOST_OF_OBJECTS };
    let mut addons = Vec::new();
    let Listed { releases, whole } = installed_releases::list(machine)?;
    let mut count = Count::default();
    for last in releases.iter().filter(|last| count.has_room(last)) {
        addons.push(match last.ours {
            true => ours(machine, last, ask, &mut left).unwrap_or_else(|error| unreadable(last, &error)),
            false => of_others(last, ask),
        });
    }
    let not_listed = count.not_listed(whole);
    let records = kube::raw(machine, manifests::inventory::RECORDS)?.unwrap_or_default();
    for record in records["items"].as_array().into_iter().flatten() {
        addons.extend(
            manifests::inventory::of_record(record)
                .map(|(name, inventory)| objects(machine, name, inventory, ask, &mut left)),
        );
    }
    addons
        .sort_by(|one, other| (&one.namespace, &one.name, one.kind).cmp(&(&other.namespace, &other.name, other.kind)));
    Ok(InstalledAddons { kubernetes: kubernetes.to_owned(), apis, addons, not_listed })
}

/// A release with kubexm's label.
fn ours(machine: &Machine, last: &Last, ask: &AddonsAsk, left: &mut Left) -> Result<InstalledAddon, OpError> {
    if Instant::now() >= left.until {
        return Err(OpError::other(took_too_long()));
    }
    let read = last.revision(machine)?.ok_or_else(|| OpError::other("it is not there any more"))?;
    release(machine, (last, &read), ask, left)
}

/// What others have in theirs is nobody's business here.
fn of_others(last: &Last, ask: &AddonsAsk) -> InstalledAddon {
    let not_compared = ask.compare.then(|| "somebody else has installed it".to_owned());
    InstalledAddon { not_compared, ..by_label(last) }
}

fn release(
    machine: &Machine,
    (listed, last): (&Last, &Revision),
    ask: &AddonsAsk,
    left: &mut Left,
) -> Result<InstalledAddon, OpError> {
    let nothing = Digest::of("");
    let op = HelmRelease {
        name: listed.name.clone(),
        namespace: listed.namespace.clone(),
        chart: nothing,
        input: nothing,
        slots: Vec::new(),
        wait_s: 0,
    };
    let found = helm_release::found(last)?;
    let ours = found.blob.is_some();
    let (drifted, mut not_compared) = match ours {
        _ if !ask.compare => (None, None),
        false => (None, Some("somebody else has installed it".to_owned())),
        true => left.compared(|| helm_release::drifted(machine, &op, last, left.until)),
    };
    let objects = match &ask.objects {
        Some(salt) if ours => {
            let shown = left.shown(helm_release::rendered(last)?, salt);
            if shown.is_none() {
                not_compared = Some(TOO_LARGE.to_owned());
            }
            shown
        }
        // What others have in theirs is nobody's business here.
        _ => None,
    };
    Ok(InstalledAddon {
        namespace: op.namespace,
        name: op.name,
        kind: InstalledKind::Helm,
        ours,
        status: found.status,
        chart: Some(found.chart),
        revision: Some(found.revision),
        source: found.blob,
        values: Some(found.values),
        drifted,
        not_compared,
        objects,
    })
}

/// A Secret that is labelled as a release and is none is somebody else's.
fn unreadable(last: &Last, error: &OpError) -> InstalledAddon {
    InstalledAddon { status: "unreadable".to_owned(), not_compared: Some(error.full()), ..by_label(last) }
}

/// A release of somebody else, as far as its labels say.
fn by_label(last: &Last) -> InstalledAddon {
    InstalledAddon {
        namespace: last.namespace.clone(),
        name: last.name.clone(),
        kind: InstalledKind::Helm,
        ours: false,
        status: last.status.clone(),
        chart: None,
        revision: Some(last.number),
        source: None,
        values: None,
        drifted: None,
        not_compared: None,
        objects: None,
    }
}

fn compared(drifted: Result<Vec<String>, OpError>) -> (Option<Vec<String>>, Option<String>) {
    match drifted {
        Ok(mut drifted) => {
            drifted.sort_unstable();
            (Some(drifted), None)
        }
        Err(error) => (None, Some(error.full())),
    }
}

fn objects(
    machine: &Machine,
    name: String,
    inventory: Result<kubexm_plan::op::Inventory, String>,
    ask: &AddonsAsk,
    left: &mut Left,
) -> InstalledAddon {
    let (kind, name) = match secrets_of(&name) {
        Some(addon) => (InstalledKind::Secrets, addon.to_owned()),
        None => (InstalledKind::Yaml, name),
    };
    let mut addon = InstalledAddon {
        namespace: String::new(),
        name,
        kind,
        ours: true,
        status: "applied".to_owned(),
        chart: None,
        revision: None,
        source: None,
        values: None,
        drifted: None,
        not_compared: None,
        objects: None,
    };
    let inventory = match inventory {
        Ok(inventory) => inventory,
        Err(why) => return InstalledAddon { status: "unknown".to_owned(), not_compared: Some(why), ..addon },
    };
    addon.namespace.clone_from(&inventory.namespace);
    let Some(blob) = inventory.blob else {
        addon.status = "changing".to_owned();
        addon.not_compared = Some("one version has not yet taken the place of another; apply it again".to_owned());
        return addon;
    };
    addon.source = Some(blob.hex());
    if !ask.compare && ask.objects.is_none() {
        return addon;
    }
    if kind == InstalledKind::Secrets {
        // Their values are known to runs only; whether they are there, everybody may see.
        (addon.drifted, addon.not_compared) = left.compared(|| manifests::missing(machine, &inventory));
        return addon;
    }
    let op = Manifests {
        name: addon.name.clone(),
        namespace: inventory.namespace.clone(),
        blob,
        in_plan: false,
        slots: Vec::new(),
        wait_s: 0,
    };
    match manifests::file(machine, &op) {
        Ok(Some(objects)) => {
            (addon.drifted, addon.not_compared) =
                left.compared(|| manifests::differing(machine, &op, &objects, left.until));
            if let Some(salt) = &ask.objects {
                addon.objects = left.shown(objects, salt);
                if addon.objects.is_none() {
                    addon.not_compared = Some(TOO_LARGE.to_owned());
                }
            }
        }
        Ok(None) => {
            addon.not_compared = Some("the store of this host does not have its file any more".to_owned());
        }
        Err(error) => addon.not_compared = Some(error.full()),
    }
    addon
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_after_the_time_of_one_answer_is_not_compared_and_says_so() {
        let left = |until| Left { until, objects: 0 };
        let called = std::cell::Cell::new(false);
        let compare = || {
            called.set(true);
            Ok(vec!["b".to_owned(), "a".to_owned()])
        };
        assert_eq!(left(Instant::now()).compared(compare), (None, Some(took_too_long())));
        assert!(!called.get());
        let found = left(Instant::now() + COMPARING).compared(compare);
        assert_eq!(found, (Some(vec!["a".to_owned(), "b".to_owned()]), None));
    }
}
