//! Drop-ins of others that are read after kubexm's, and set what kubexm's sets: the last one wins.

use super::input::PreflightInput;
use super::report::Report;
use crate::runtime;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let Some((folder, own)) = runtime::of(input.cx.cluster).drop_ins else { return };
    let Ok(nodes) = input.cx.nodes() else { return };
    for host in input.nodes() {
        let node = nodes.iter().find(|node| node.name() == host.name());
        let Some(ours) = node.and_then(|node| runtime::settings(input.cx, node)) else { continue };
        for found in &host.facts.runtime_settings {
            let needed = format!("{own} to be the last file that sets it: the runtime takes the last value");
            if found.key.is_empty() {
                report.fail(
                    host.name(),
                    format!("{}, which is no TOML: {}", found.file, found.value),
                    format!("files in {folder} that the runtime can read: with this one it does not start"),
                    "mend it, or move it elsewhere",
                );
            } else if ours.get(&found.key).is_some_and(|value| *value != found.value) {
                report.fail(
                    host.name(),
                    format!("{} = {} in {}", found.key, found.value, found.file),
                    needed,
                    format!("take it out of that file, or give the file a name before {own}"),
                );
            }
        }
    }
}
