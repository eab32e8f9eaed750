//! isulad answers, with version 1 of the CRI, and runs with kubexm's configuration.

use kubexm_plan::ProbeAnswer;
use kubexm_plan::runtime::{self, RuntimeTraits};
use kubexm_spec::Version;
use kubexm_spec::cluster::RuntimeKind;

use super::answer::{no, yes};
use crate::{Machine, OpError, crictl, isulad};

const ISULAD: &RuntimeTraits = runtime::of(RuntimeKind::Isulad);
/// Before the oldest release that is good.
const AT_LEAST: &str = ">= ";

/// `wanted` are lines of what isulad says of itself: `Storage Driver: overlay2`. Its control groups are not among them: here it says cgroupfs
/// always. Which releases keep what the configuration says is known: `Server Version: >= 2.1.6`.
pub(super) fn look(machine: &Machine, wanted: &[String]) -> Result<ProbeAnswer, OpError> {
    let asked = isulad::client("info", []).within(20);
    let answer = machine.try_run(&asked)?;
    if answer.code != 0 {
        return Ok(no(format!("isulad does not answer: {}", answer.tail())));
    }
    let info = answer.stdout();
    for line in wanted {
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        let found = value_of(&info, key);
        let good = match value.strip_prefix(AT_LEAST) {
            Some(oldest) => found.is_some_and(|found| Version::of(found).release() >= Version::of(oldest).release()),
            None => found == Some(value),
        };
        if !good {
            let found = found.unwrap_or("unknown");
            return Ok(no(format!(
                "isulad runs with {key} {found}, and {value} is needed by what was written into {}: look at `journalctl --unit {}`",
                ISULAD.config,
                ISULAD.service()
            )));
        }
    }
    let asked = crictl::of(ISULAD, ["version"]).within(20);
    let answer = machine.try_run(&asked)?;
    if answer.code != 0 {
        return Ok(no(format!("isulad does not answer version 1 of the CRI: {}", answer.tail())));
    }
    Ok(yes("isulad answers version 1 of the CRI, with kubexm's configuration"))
}

/// Lines of the storage driver stand between, a column to the right.
fn value_of<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}
