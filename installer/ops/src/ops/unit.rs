//! State of a systemd unit. "Running with this configuration" is a state: the digests of the files it was started
//! with are recorded with its invocation id, so a restart that a crash swallowed is seen and made up for. The record
//! outlives a reboot (with the boot it was written in): what the next boot starts, it starts with the files on disk. It
//! outlives a start by systemd itself, after a crash, if the files had not changed until then.

use std::collections::BTreeMap;
use std::path::Path;

use kubexm_plan::etcd;
use kubexm_plan::op::{Started, Unit, UnitState};
use kubexm_spec::Digest;

use crate::started::{boot_id, digests, holds, holds_since, read_record, remove_record, write_record};
use crate::systemd::Shown;
use crate::{Converge, Machine, OpError, Wave};
use crate::{own_etcd, systemd};

impl Converge for Unit {
    fn observe(&self, machine: &Machine) -> Result<UnitState, OpError> {
        let shown = systemd::show(machine, &self.name)?;
        let record = read_record(machine, &self.name)?;
        let now = digests(machine, self.files())?;
        let boot = boot_id(machine)?;
        let current = self.files().next().is_none()
            || record
                .as_ref()
                .map_or(Ok(false), |record| runs_with(machine, &shown, record, self.files(), &boot, &now))?;
        Ok(UnitState {
            exists: shown.exists(),
            // What others start is off when it does not run.
            enabled: shown.enabled() && (self.enabled || !shown.is_static()),
            active: shown.active(),
            current,
            needs_reload: shown.needs_reload,
            lingers: shown.lingers(),
            invocation: shown.invocation,
            record,
        })
    }

    fn satisfied(&self, found: &UnitState, _: &Machine) -> bool {
        if !found.exists {
            return match self.running {
                Some(true) => false,
                Some(false) => !self.enabled && !found.lingers,
                None => !self.enabled,
            };
        }
        found.enabled == self.enabled
            && !found.needs_reload
            && match self.running {
                Some(true) => found.active && found.current,
                Some(false) => !found.active,
                None => true,
            }
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        systemd::reload_if_needed(machine, &self.name)?;
        let found = self.observe(machine)?;
        if !found.exists {
            if self.enabled || self.running == Some(true) {
                return Err(OpError::other(format!(
                    "systemd knows no unit {}: its file is missing or was not written before; this is a fault of the plan",
                    self.name
                )));
            }
            return match self.running {
                Some(false) if found.lingers => systemd::end(machine, &self.name),
                _ => Ok(()),
            };
        }
        if found.enabled != self.enabled {
            systemd::enable(machine, &self.name, self.enabled)?;
        }
        match self.running {
            Some(true) if !(found.active && found.current) => {
                // Before the start: a file that changes between the two makes the record stale, not wrong.
                let loaded = digests(machine, self.files())?;
                if found.active && self.name == etcd::UNIT {
                    own_etcd::may_restart(machine, own_etcd::SOON)?;
                }
                take_over(self, machine, &found, &loaded)?;
                write_record(machine, &self.name, systemd::show(machine, &self.name)?.invocation, loaded)
            }
            Some(false) if found.active => systemd::stop(machine, &self.name),
            _ => Ok(()),
        }
    }

    fn restore(&self, machine: &Machine, before: &UnitState, wave: Wave) -> Result<(), OpError> {
        match wave {
            Wave::Stop => {
                let now = systemd::show(machine, &self.name)?;
                // One that crash-loops is "activating", and would continue after its files are gone.
                if (now.active() || now.running()) && !before.active {
                    systemd::stop(machine, &self.name)?;
                } else if now.failed() && !before.exists {
                    systemd::forget_failure(machine, &self.name)?;
                }
                // While its file, whose [Install] says which links to remove, is still there.
                if now.exists() && now.enabled() && !now.is_static() && !before.enabled {
                    systemd::enable(machine, &self.name, false)?;
                }
                if before.record.is_none() && !before.active {
                    remove_record(machine, &self.name)?;
                }
                Ok(())
            }
            Wave::Data => Ok(()),
            Wave::Start => {
                systemd::daemon_reload(machine)?;
                let now = self.observe(machine)?;
                if before.exists && now.enabled != before.enabled {
                    systemd::enable(machine, &self.name, before.enabled)?;
                }
                if !before.active {
                    return Ok(());
                }
                let loaded = digests(machine, self.files())?;
                // Without a record it runs as before, unless a kill came between our start and its record.
                let reloaded = now.record.as_ref().map_or(
                    before.invocation.is_empty()
                        || now.invocation == before.invocation
                        || self.files().next().is_none(),
                    |record| record.loaded == loaded,
                );
                if !now.active || !reloaded {
                    if now.active && self.name == etcd::UNIT {
                        own_etcd::may_restart(machine, own_etcd::AFTER_EACH_OTHER)?;
                    }
                    take_over(self, machine, &now, &loaded)?;
                }
                if before.record.is_some() {
                    write_record(machine, &self.name, systemd::show(machine, &self.name)?.invocation, loaded)
                } else {
                    remove_record(machine, &self.name)
                }
            }
        }
    }
}

/// Whether what runs was started with these files: by us, by a later boot, or by systemd after a crash.
fn runs_with<'p>(
    machine: &Machine,
    shown: &Shown,
    record: &Started,
    paths: impl Iterator<Item = &'p String>,
    boot: &str,
    now: &BTreeMap<String, Digest>,
) -> Result<bool, OpError> {
    match shown.started {
        _ if holds(record, &shown.invocation, boot, now) => Ok(true),
        Some(at) if shown.active() && shown.pid > 0 && !shown.needs_reload => {
            holds_since(machine, record, at, paths, now)
        }
        _ => Ok(false),
    }
}

/// Makes the running unit have its files as they are now: by a reload where it runs with all others already, else by a new
/// start.
fn take_over(unit: &Unit, machine: &Machine, found: &UnitState, now: &BTreeMap<String, Digest>) -> Result<(), OpError> {
    let by_reload = |path: &String| unit.reloaded.iter().any(|of| Path::new(path).starts_with(of));
    let by_start = |files: &BTreeMap<String, Digest>| -> BTreeMap<String, Digest> {
        files.iter().filter(|(path, _)| !by_reload(path)).map(|(path, digest)| (path.clone(), *digest)).collect()
    };
    let boot = boot_id(machine)?;
    let runs_with_the_rest = match &found.record {
        Some(record) if found.active && !unit.reloaded.is_empty() => {
            let record = Started { loaded: by_start(&record.loaded), ..record.clone() };
            let paths = unit.files().filter(|path| !by_reload(path));
            runs_with(machine, &systemd::show(machine, &unit.name)?, &record, paths, &boot, &by_start(now))?
        }
        _ => false,
    };
    if runs_with_the_rest {
        return systemd::reload(machine, &unit.name);
    }
    systemd::start_anew(machine, &unit.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use crate::dispatch;

    impl Cases for Unit {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("a unit that must run", |h| {
                h.unit("a.service", "/usr/local/bin/a");
                Unit {
                    name: "a.service".into(),
                    enabled: true,
                    running: Some(true),
                    loaded: vec!["/etc/hostname".into()],
                    reloaded: Vec::new(),
                }
            }),
            ("a unit that is only enabled", |h| {
                h.unit("a.service", "/usr/local/bin/a");
                Unit { name: "a.service".into(), enabled: true, running: None, loaded: vec![], reloaded: Vec::new() }
            }),
            ("a unit that has failed, and whose file is gone", |h| {
                h.unit("a.service", "/usr/local/bin/a");
                let on = Unit {
                    name: "a.service".into(),
                    enabled: false,
                    running: Some(true),
                    loaded: vec![],
                    reloaded: Vec::new(),
                };
                std::fs::remove_file(h.machine.path("/usr/local/bin/a")).expect("removed");
                dispatch::converge(&on.clone().into(), &h.machine).expect_err("it has no program");
                std::fs::remove_file(h.machine.path("/etc/systemd/system/a.service")).expect("removed");
                systemd::daemon_reload(&h.machine).expect("a reload");
                Unit { running: Some(false), ..on }
            }),
            ("a unit without [Install], which others start, that must be off", |h| {
                h.put("/usr/local/bin/a", "#!/bin/true\n");
                h.put("/etc/systemd/system/a.service", "[Service]\nExecStart=/usr/local/bin/a\n");
                let on = Unit {
                    name: "a.service".into(),
                    enabled: true,
                    running: Some(true),
                    loaded: vec![],
                    reloaded: Vec::new(),
                };
                dispatch::converge(&on.clone().into(), &h.machine).expect("on");
                Unit { enabled: false, running: Some(false), ..on }
            }),
            ("a unit that must be off", |h| {
                h.unit("a.service", "/usr/local/bin/a");
                let on = Unit {
                    name: "a.service".into(),
                    enabled: true,
                    running: Some(true),
                    loaded: vec![],
                    reloaded: Vec::new(),
                };
                dispatch::converge(&on.into(), &h.machine).expect("on");
                Unit {
                    name: "a.service".into(),
                    enabled: false,
                    running: Some(false),
                    loaded: vec![],
                    reloaded: Vec::new(),
                }
            }),
        ]);
    }
}
