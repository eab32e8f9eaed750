//! Packages of the operating system from the bundle: a repository of our own on the host, and what is installed from it.

use std::collections::BTreeMap;

use kubexm_plan::op::{Dir, Packages, WantedPackage};
use kubexm_plan::{Step, Undo};
use kubexm_spec::{Digest, Family};

use crate::context::{Node, PlanCx};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::packages::{self, HostPackages, NodePackages, Part};

/// Seconds in which somebody else may hold the package manager, and in which it reads its lists.
const BESIDE: u64 = 900;
/// Seconds that one package may take: unpacked and configured on a slow disk.
const EACH: u64 = 15;

/// What comes to a node; refused where something lacks and cannot come.
pub fn of_node<'a>(cx: &PlanCx<'a>, node: &Node<'_>) -> Result<Option<Box<NodePackages<'a>>>, RecipeError> {
    let refused = |why: String| Err(RecipeError::Packages { host: node.name().to_owned(), why });
    match packages::of_host(cx, node.name(), node.facts) {
        HostPackages::Nothing => Ok(None),
        HostPackages::NoSet { os, lacks } => refused(format!(
            "it lacks {}, and the bundle has packages of {} and none of {os}",
            lacks.join(", "),
            cx.packages.told()
        )),
        HostPackages::Unreadable { lacks, why } => {
            refused(format!("it lacks {}, and what it has installed is not known: {why}", lacks.join(", ")))
        }
        HostPackages::Planned(planned) => match planned.conflicts.first() {
            Some(conflict) => refused(format!("{} cannot be installed: {}", conflict.root.name, conflict.why)),
            None => Ok(Some(planned)),
        },
    }
}

/// What of the bundle a node's store must have for it, with sizes in bytes.
pub fn blobs(planned: &NodePackages<'_>) -> BTreeMap<Digest, u64> {
    let all = planned.packages().chain(planned.replaced());
    let size = |name: &str| planned.carried.package(name).map_or(0, |package| package.size);
    all.map(|(name, package)| (package.blob, size(name))).collect()
}

/// The repository, then what cannot be taken back (upgrades with what they need), then the rest, which can.
pub fn steps(draft: &mut Draft<'_>, node: &Node<'_>, planned: &NodePackages<'_>) -> Vec<Step> {
    let mut steps = vec![repository(draft, node, planned)];
    if let Some(part) = &planned.for_good {
        let why = why(planned);
        steps.push(install(node, planned, part, "upgrade", Undo::Irreversible { why }));
    }
    steps.extend(planned.restorable.iter().map(|part| install(node, planned, part, "install", Undo::RestoreBefore)));
    steps
}

fn folder(planned: &NodePackages<'_>) -> String {
    packages::folder(&planned.carried.set.os, planned.carried.set.platform.arch)
}

fn repository(draft: &mut Draft<'_>, node: &Node<'_>, planned: &NodePackages<'_>) -> Step {
    let folder = folder(planned);
    let files = planned.carried.repository.iter();
    let files: Vec<_> =
        files.map(|file| draft.file(format!("{folder}/{}", file.path), 0o644, file.text.as_str())).collect();
    Step::on(node.name(), "packages.repository", "Put the bundle's repository of packages on the node")
        .ensure(Dir { path: folder, mode: 0o755 })
        .ensure_all(files)
        .undo(Undo::RestoreBefore)
        .build()
}

fn install(node: &Node<'_>, planned: &NodePackages<'_>, part: &Part, name: &str, undo: Undo) -> Step {
    let count = part.packages.len();
    let upgrades = part.packages.values().filter(|package| package.upgrade).count();
    let roots = planned.coming.iter().filter(|root| root.packages.iter().any(|name| part.packages.contains_key(name)));
    let roots: Vec<&str> = roots.map(|root| root.name.as_str()).collect();
    let title = match (count - upgrades, upgrades) {
        (new, 0) if roots.is_empty() => format!("Install {}", counted(new)),
        (new, 0) => format!("Install {}: {}", roots.join(", "), counted(new)),
        (0, old) => format!("Upgrade {}", counted(old)),
        (new, old) => format!("Upgrade {}, with {new} that come", counted(old)),
    };
    let family = planned.carried.profile.family;
    let folder = folder(planned);
    Step::on(node.name(), &format!("packages.{name}"), &title)
        .ensure(Packages {
            family,
            source: format!("{folder}/{}", source(family)),
            repository: folder,
            packages: part.packages.clone(),
            replaced: part.replaced.clone(),
        })
        .timeout_s(BESIDE + EACH * u64::try_from(count).unwrap_or(u64::MAX / EACH / 2))
        .undo(undo)
        .build()
}

/// The name of our source file in the repository.
pub const fn source(family: Family) -> &'static str {
    match family {
        Family::Deb => "kubexm.list",
        Family::Rpm => "kubexm.repo",
    }
}

fn counted(packages: usize) -> String {
    kubexm_spec::counted(packages as u64, "package")
}

/// Why there is no way back, with every package that has none.
fn why(planned: &NodePackages<'_>) -> String {
    let upgrades = planned.upgrades.iter().map(|one| format!("{} {} is upgraded to {}", one.name, one.from, one.to));
    let back = |name: &str| {
        planned
            .replaced()
            .find(|(one, _)| *one == name)
            .map_or("", |(_, package): (_, &WantedPackage)| &package.version)
    };
    let leaving = planned
        .leaves_for_good
        .iter()
        .map(|(name, version)| format!("{name} {version} leaves, and what would be put back is {}", back(name)));
    let all: Vec<String> = upgrades.chain(leaving).collect();
    format!("{}; the bundle does not have the older packages", all.join(", "))
}
