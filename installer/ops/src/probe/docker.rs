//! Docker answers, and runs with kubexm's configuration; and cri-dockerd listens.

use kubexm_plan::ProbeAnswer;
use kubexm_plan::runtime::{self, RuntimeTraits};
use kubexm_spec::cluster::RuntimeKind;
use serde_json::Value;

use super::answer::{no, yes};
use crate::{Machine, OpError, docker};

const DOCKER: &RuntimeTraits = runtime::of(RuntimeKind::Docker);

/// `wanted` are fields of what docker says of itself: `Driver=overlay2`.
pub(super) fn look(machine: &Machine, wanted: &[String]) -> Result<ProbeAnswer, OpError> {
    let asked = docker::client(["info", "--format", "{{json .}}"]).within(20);
    let answer = machine.try_run(&asked)?;
    if answer.code != 0 {
        return Ok(no(format!("docker does not answer: {}", answer.tail())));
    }
    let Ok(info) = serde_json::from_slice::<Value>(&answer.stdout) else {
        return Ok(no(format!("`{asked}` answers with something else than expected")));
    };
    // The client answers without the engine, too.
    if let Some(error) = info["ServerErrors"].as_array().and_then(|all| all.first()) {
        return Ok(no(format!("docker does not answer: {}", error.as_str().unwrap_or_default())));
    }
    for field in wanted {
        let (key, value) = field.split_once('=').unwrap_or((field, ""));
        let found = match &info[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if found != value {
            return Ok(no(format!(
                "docker runs with {key} {found}, and {value} was written into {}: look at `journalctl --unit {}`",
                DOCKER.config,
                DOCKER.service()
            )));
        }
    }
    if !machine.path(DOCKER.socket()).exists() {
        let unit = DOCKER.other_units.first().copied().unwrap_or_default();
        return Ok(no(format!("there is no {}: look at `journalctl --unit {unit}`", DOCKER.socket())));
    }
    Ok(yes("docker answers with kubexm's configuration, and cri-dockerd listens"))
}
