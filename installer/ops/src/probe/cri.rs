//! containerd answers, and has loaded kubexm's configuration: it silently ignores unknown keys.

use kubexm_plan::ProbeAnswer;

use super::answer::{no, yes};
use crate::system::Program;
use crate::{Machine, OpError};

pub(super) fn look(machine: &Machine, config_dump: &[String]) -> Result<ProbeAnswer, OpError> {
    let dumped = || machine.run(&Program::new("containerd").args(["config", "dump"]).within(10));
    let asked = Program::new("ctr").args(["plugins", "list", "id==cri"]).within(10);
    let (plugins, dump) = std::thread::scope(|scope| {
        let dump = (!config_dump.is_empty()).then(|| scope.spawn(dumped));
        let ended = |_| Err(OpError::other("`containerd config dump` was not waited for"));
        (machine.try_run(&asked), dump.map(|dump| dump.join().unwrap_or_else(ended)))
    });
    // The CRI plugin is one of many; an error in its configuration only disables it.
    let plugins = plugins?;
    if plugins.code != 0 {
        return Ok(no(format!("containerd does not answer: {}", plugins.tail())));
    }
    let plugins = plugins.stdout();
    let cri = plugins.lines().find(|line| line.split_whitespace().nth(1) == Some("cri"));
    if !cri.is_some_and(|line| line.trim_end().ends_with("ok")) {
        return Ok(no(format!("containerd's CRI plugin is not ready: {}", cri.unwrap_or("not listed").trim())));
    }
    let Some(dump) = dump else { return Ok(yes("containerd answers")) };
    let dump = dump?.stdout();
    match config_dump.iter().find(|wanted| !dump.contains(wanted.as_str())) {
        None => Ok(yes("containerd answers with kubexm's configuration")),
        Some(missing) => Ok(no(format!(
            "`containerd config dump` does not show {missing:?}: this containerd does not know the key that kubexm \
             wrote"
        ))),
    }
}
