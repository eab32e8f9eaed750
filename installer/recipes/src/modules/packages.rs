//! Operating system packages from the bundle: a local repository on the host, and the packages installed from it.

use std::collections::BTreeMap;

use kubexm_plan::op::{Dir, Packages, StateDir};
use kubexm_plan::{Step, Undo};
use kubexm_spec::{Digest, Family};

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::time;
use crate::packages::{self, CannotInstall, NodePackages, Part};

/// What the script of a package makes and none takes away when it is removed, by package.
const LEFT: [(&str, &str); 1] = [("nginx-common", "/var/www/html/index.nginx-debian.html")];

/// The packages to install on a node; an error if something is missing and cannot be installed.
pub fn of_node<'a>(cx: &PlanContext<'a>, node: &PlannedHost<'_>) -> Result<Option<NodePackages<'a>>, RecipeError> {
    let refused = |why: String| Err(RecipeError::Packages { host: node.name().to_owned(), why });
    match packages::of_host(cx, node.name(), node.facts) {
        Err(CannotInstall::NoSet { os, missing }) => refused(format!(
            "it is missing {}, and the bundle has packages for {} and none for {os}",
            missing.join(", "),
            cx.packages.describe()
        )),
        Err(CannotInstall::Unreadable { missing, why }) => {
            refused(format!("it is missing {}, and what it has installed is not known: {why}", missing.join(", ")))
        }
        Ok(planned) => match planned.as_ref().and_then(|planned| planned.conflicts.first()) {
            Some(conflict) => refused(format!("{} cannot be installed: {}", conflict.root.name, conflict.why)),
            None => Ok(planned),
        },
    }
}

/// Blobs that a node's content store needs for the packages, with sizes in bytes.
pub fn blobs(planned: &NodePackages<'_>) -> BTreeMap<Digest, u64> {
    let all = planned.packages().chain(planned.replaced());
    let size = |name: &str| planned.carried.package(name).map_or(0, |package| package.size);
    all.map(|(name, package)| (package.blob, size(name))).collect()
}

/// Steps: the repository; the packages whose installation cannot be rolled back (upgrades with their dependencies); the
/// others.
pub fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>, planned: &NodePackages<'_>) -> Vec<Step> {
    let mut steps = vec![repository(draft, node, planned)];
    if let Some(part) = &planned.irreversible {
        let why = why(planned);
        steps.push(install(node, planned, part, "upgrade", Undo::Irreversible { why }));
    }
    steps.extend(planned.restorable.iter().map(|part| install(node, planned, part, "install", Undo::RestoreBefore)));
    steps
}

/// The step that upgrades installed packages of a node that is drained. The repository is there.
pub fn upgrade(node: &PlannedHost<'_>, planned: &NodePackages<'_>) -> Option<Step> {
    let part = planned.irreversible.as_ref()?;
    Some(install(node, planned, part, "newer", Undo::Irreversible { why: why(planned) }))
}

/// The value of the annotation that says that a node has these packages, of one plan: a node that has older ones again is drained again.
pub fn mark(planned: &NodePackages<'_>, now: i64) -> String {
    let all = planned.packages().map(|(name, package)| format!("{name}={}\n", package.version));
    Digest::of(format!("{now}\n{}", all.collect::<String>())).to_string()
}

fn folder(planned: &NodePackages<'_>) -> String {
    packages::folder(&planned.carried.set.os, planned.carried.set.platform.arch)
}

/// The step that puts a node's repository there.
pub fn repository(draft: &mut Draft<'_>, node: &PlannedHost<'_>, planned: &NodePackages<'_>) -> Step {
    let folder = folder(planned);
    let files = planned.carried.repository.iter();
    let files: Vec<_> =
        files.map(|file| draft.file(format!("{folder}/{}", file.path), 0o644, file.text.as_str())).collect();
    Step::on(node.name(), "packages.repository", "Put the bundle's package repository on the node")
        .ensure(Dir { path: folder, mode: 0o755 })
        .ensure_all(files)
        .undo(Undo::RestoreBefore)
        .build()
}

fn install(node: &PlannedHost<'_>, planned: &NodePackages<'_>, part: &Part, name: &str, undo: Undo) -> Step {
    let count = part.packages.len();
    let upgrades = part.packages.values().filter(|package| package.upgrade).count();
    let roots =
        planned.to_install.iter().filter(|root| root.packages.iter().any(|name| part.packages.contains_key(name)));
    let roots: Vec<&str> = roots.map(|root| root.name.as_str()).collect();
    let title = match (count - upgrades, upgrades) {
        (new, 0) if roots.is_empty() => format!("Install {}", counted(new)),
        (new, 0) => format!("Install {}: {}", roots.join(", "), counted(new)),
        (0, old) => format!("Upgrade {}", counted(old)),
        (new, old) => format!("Upgrade {}, and install {new} more", counted(old)),
    };
    let family = planned.carried.profile.family;
    let folder = folder(planned);
    let op = Packages {
        family,
        source: format!("{folder}/{}", source(family)),
        repository: folder,
        packages: part.packages.clone(),
        replaced: part.replaced.clone(),
    };
    let limit = op.limit_s();
    let left = LEFT.into_iter().filter(|(package, _)| part.packages.contains_key(*package));
    let step = Step::on(node.name(), &format!("packages.{name}"), &title)
        .ensure_all(time::chrony_state(family, part))
        .ensure_all(left.map(|(_, path)| StateDir::at(path)));
    step.ensure(op).timeout_s(limit).undo(undo).build()
}

/// The name of the apt or dnf source file in the repository.
pub const fn source(family: Family) -> &'static str {
    match family {
        Family::Deb => "kubexm.list",
        Family::Rpm => "kubexm.repo",
    }
}

fn counted(packages: usize) -> String {
    kubexm_spec::counted(packages as u64, "package")
}

/// So many upgrades are in the reason; the plan has all of them.
const NAMED: usize = 30;

/// Why the upgrades cannot be rolled back.
fn why(planned: &NodePackages<'_>) -> String {
    let upgrades = planned.upgrades.iter().take(NAMED);
    let upgrades = upgrades.map(|one| format!("{} {} is upgraded to {}", one.name, one.from, one.to));
    let more = planned.upgrades.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{} more are upgraded", counted(more)));
    let removed =
        planned.irreversible.iter().flat_map(|part| part.replaced.keys()).map(|name| format!("{name} stays removed"));
    let all: Vec<String> = upgrades.chain(more).chain(removed).collect();
    if all.is_empty() {
        return "an interrupted upgrade is completed".to_owned();
    }
    format!("{}; the bundle does not have the older packages", all.join(", "))
}
