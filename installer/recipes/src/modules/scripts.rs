//! Scripts of the user, before and after everything else on a host.

use kubexm_plan::op::{Dir, File, ScriptRun, ScriptUndo};
use kubexm_plan::{Step, StepId, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::Script;

use crate::context::PlannedHost;
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::paths;

/// `spec.system.preInstall`, in order.
pub fn before(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Vec<Step>, RecipeError> {
    let cluster = draft.cx.cluster;
    let chosen = cluster
        .system
        .pre_install
        .iter()
        .zip(1..)
        .filter(|(script, _)| script.runs_on(&cluster.role_groups, node.name()));
    chosen.map(|(script, number)| step(draft, node, script, &format!("pre-{number}"))).collect()
}

/// `spec.system.postInstall`, in order, after the final check of the cluster.
pub fn finish(draft: &mut Draft<'_>, nodes: &[PlannedHost<'_>], checked: &[StepId]) -> Result<(), RecipeError> {
    let cluster = draft.cx.cluster;
    for node in nodes {
        let mut chain = Chain::after(checked.iter().cloned());
        let scripts = cluster.system.post_install.iter().zip(1..);
        for (script, number) in scripts.filter(|(script, _)| script.runs_on(&cluster.role_groups, node.name())) {
            chain.then([step(draft, node, script, &format!("post-{number}"))?]);
        }
        draft.add(chain);
    }
    Ok(())
}

/// A script and its files. Their folder is named by a digest of the content: an edited script counts as one that has
/// not run yet.
fn step(draft: &mut Draft<'_>, node: &PlannedHost<'_>, script: &Script, place: &str) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let mut texts = vec![("run.sh".to_owned(), script.bash.as_str())];
    texts.extend(script.undo.as_ref().map(|undo| ("undo.sh".to_owned(), undo.as_str())));
    for file in &script.materials {
        texts.push((format!("files/{}", file.name), cx.material(file)?));
    }
    let all: String = texts.iter().map(|(name, text)| format!("{name} {}\n", Digest::of(text))).collect();
    let id = format!("{place}-{}", Digest::of(all).short());
    let folder = format!("{}/{id}", paths::SCRIPTS);
    let files: Vec<File> =
        texts.into_iter().map(|(name, text)| draft.file(format!("{folder}/{name}"), 0o700, text)).collect();
    let (name, timeout_s) = (script.name.clone(), u64::from(script.timeout));
    let undo = match &script.undo {
        Some(_) => Undo::Act {
            act: ScriptUndo { id: id.clone(), name: name.clone(), folder: folder.clone(), timeout_s }.into(),
        },
        None => Undo::Irreversible { why: "cluster.yaml has no undo for this script".to_owned() },
    };
    Ok(Step::on(node.name(), &format!("script.{place}"), &format!("Run script {name:?}"))
        .ensure(Dir { path: folder.clone(), mode: 0o700 })
        .ensure_all(files)
        .ensure(ScriptRun { id, name, folder, timeout_s, undo: script.undo.is_some() })
        // A script that was interrupted is undone first.
        .timeout_s(2 * timeout_s + 60)
        .undo(undo)
        .build())
}
