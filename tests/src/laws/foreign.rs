//! Files of somebody else's, in every folder that a step, an act, a reset or an undo touches: none of them may be touched.

use std::collections::BTreeSet;

use kubexm_plan::state_folders::{self, is_below};
use kubexm_plan::{Op, Plan, Resource};

/// Ours by name: a reset removes them whole.
const OURS: &str = "/var/lib/kubexm";

/// Absolute paths, for hosts of this plan. Where a step looks for a single file, its folder counts.
pub fn files(plan: &Plan) -> BTreeSet<String> {
    let mut folders: BTreeSet<String> = state_folders::all().into_iter().map(str::to_owned).collect();
    let ops = || plan.steps.iter().flat_map(|step| &step.ops);
    folders.extend(ops().flat_map(touched));
    folders.retain(|folder| folder != OURS && !is_below(folder, OURS) && !folder.is_empty());
    folders
        .into_iter()
        .flat_map(|folder| ["theirs", "theirs.d/deep/one"].map(|name| format!("{folder}/{name}")))
        .collect()
}

fn touched(op: &Op) -> Vec<String> {
    let parent = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_owned()).unwrap_or_default();
    match op {
        // Those of single files lie in others, but for configurations of chrony and of Harbor's installer, sockets, and ids of processes.
        Op::StateDir(dir) if [".conf", ".timer", ".yml", ".sock", ".pid"].iter().any(|end| dir.path.ends_with(end)) => {
            vec![parent(&dir.path)]
        }
        Op::StateDir(dir) if state_folders::all().iter().any(|folder| is_below(&dir.path, folder)) => Vec::new(),
        Op::StateDir(dir) => vec![dir.path.clone()],
        Op::Dir(dir) => vec![dir.path.clone()],
        Op::RegistryLayout(layout) => vec![layout.data_dir.clone()],
        op => op
            .alone()
            .iter()
            .filter_map(|thing| if let Resource::Path(path) = thing { Some(parent(path)) } else { None })
            .collect(),
    }
}
