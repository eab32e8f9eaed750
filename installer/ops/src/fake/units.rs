//! `systemctl` with the unit files of the directory.

use kubexm_spec::Digest;

use super::rooted::{FOLDER, RootedSystem};
use super::state::State;
use super::unit_files::{file, files, text};
use crate::OpError;
use crate::system::{Output, System as _};

const WANTS: &str = "/etc/systemd/system/multi-user.target.wants";

pub(super) fn systemctl(system: &RootedSystem, state: &mut State, args: &[&str]) -> Result<Output, OpError> {
    let unit = args.get(1).copied().unwrap_or_default();
    match args.first().copied().unwrap_or_default() {
        "daemon-reload" => {
            state.known = files(system);
            Ok(Output::default())
        }
        "show" => {
            if args.get(1) == Some(&"--property=Version") {
                let version = system.read(&format!("{FOLDER}/systemd-version"));
                return Ok(Output::text(format!("Version={}\n", version.as_deref().unwrap_or("252.39-1~deb12u1"))));
            }
            if args.last() == Some(&"--property=ExecStart") {
                // A drop-in that sets it comes last.
                let text = text(system, unit);
                let starts =
                    text.lines().filter_map(|line| line.strip_prefix("ExecStart=")).rfind(|line| !line.is_empty());
                let path = starts.and_then(|line| line.split_whitespace().next());
                return Ok(Output::text(match path {
                    Some(path) => {
                        format!("ExecStart={{ path={path} ; argv[]={path} --config=/c ; ignore_errors=no }}\n")
                    }
                    None => "ExecStart=\n".to_owned(),
                }));
            }
            let units = args.iter().skip(1).filter(|arg| !arg.starts_with("--"));
            let shown: Vec<String> = units.map(|unit| show(system, state, unit)).collect();
            Ok(Output::text(shown.join("\n")))
        }
        "list-units" => {
            let (start, end) = args.last().and_then(|pattern| pattern.split_once('*')).unwrap_or_default();
            let known = state.units.keys().filter(|name| name.starts_with(start) && name.ends_with(end));
            Ok(Output::text(known.map(|name| format!("{name} loaded - - {name}\n")).collect::<String>()))
        }
        "is-active" => {
            let active = state.units.get(unit).is_some_and(|unit| unit.active);
            Ok(if active { Output::text("active\n") } else { Output { code: 3, ..Output::text("inactive\n") } })
        }
        "is-enabled" => {
            let shown = show(system, state, unit);
            let word = shown.lines().find_map(|line| line.strip_prefix("UnitFileState=")).unwrap_or_default();
            let code = i32::from(!matches!(word, "enabled" | "static"));
            Ok(Output { code, ..Output::text(format!("{word}\n")) })
        }
        "enable" => enable(system, state, unit),
        "disable" => disable(system, unit),
        "start" | "restart" => start(system, state, unit),
        "reload" => reload(system, state, unit),
        "try-restart" | "try-reload-or-restart" => {
            if state.units.get(unit).is_some_and(|unit| unit.active) {
                start(system, state, unit)
            } else {
                Ok(Output::default())
            }
        }
        "stop" => {
            if let Some(found) = state.units.get_mut(unit) {
                found.active = false;
                found.invocation.clear();
            }
            if unit == kubexm_plan::etcd::UNIT {
                super::etcd::stop(system, state)?;
            }
            if unit == "containerd.service" {
                crate::fsio::remove(&system.at("/run/containerd/containerd.sock"))?;
                let _ = std::fs::remove_dir(system.at("/run/containerd"));
            }
            if unit == super::cri_o::UNIT {
                super::cri_o::stopped(system)?;
            }
            super::docker::stopped(system, unit)?;
            super::isulad::stopped(system, unit)?;
            Ok(Output::default())
        }
        "reset-failed" => {
            state.units.retain(|name, found| name != unit || found.active || !found.failed);
            Ok(Output::default())
        }
        other => Err(OpError::other(format!("the fake of systemctl does not know `{other}`"))),
    }
}

fn show(system: &RootedSystem, state: &State, unit: &str) -> String {
    let now = text(system, unit);
    let known = state.known.get(unit);
    let load = match known {
        None => "not-found",
        Some(_) if masked(system, unit) => "masked",
        Some(_) if now.is_empty() => "not-found",
        Some(_) => "loaded",
    };
    let reload = known.is_some_and(|known| !now.is_empty() && *known != Digest::of(&now));
    let found = state.units.get(unit).cloned().unwrap_or_default();
    let enabled = system.at(&format!("{WANTS}/{unit}")).symlink_metadata().is_ok();
    let file_state = match (load, enabled) {
        ("not-found", _) => "",
        ("masked", _) => "masked",
        (_, true) => "enabled",
        _ if !now.contains("[Install]") => "static",
        _ => "disabled",
    };
    format!(
        "LoadState={load}\nActiveState={}\nSubState={}\nUnitFileState={file_state}\nNeedDaemonReload={}\n\
         InvocationID={}\nNRestarts=0\nExecMainStatus=0\nResult=success\nMainPID={}\n\
         ExecMainStartTimestampMonotonic={}\n",
        match (found.active, found.failed) {
            (true, _) => "active",
            (_, true) => "failed",
            _ => "inactive",
        },
        match (found.active, found.failed) {
            (true, _) => "running",
            (_, true) => "failed",
            _ => "dead",
        },
        if reload { "yes" } else { "no" },
        found.invocation,
        if found.active { 1000 } else { 0 },
        found.started,
    )
}

fn masked(system: &RootedSystem, unit: &str) -> bool {
    file(system, unit)
        .is_some_and(|(_, real)| std::fs::read_link(real).is_ok_and(|target| target.as_os_str() == "/dev/null"))
}

fn enable(system: &RootedSystem, state: &State, unit: &str) -> Result<Output, OpError> {
    let Some((path, _)) = file(system, unit).filter(|_| state.known.contains_key(unit)) else {
        return Ok(Output::failed(1, format!("Failed to enable unit: Unit file {unit} does not exist.")));
    };
    if !text(system, unit).contains("[Install]") {
        return Ok(Output::failed(1, format!("The unit file {unit} has no [Install] section.")));
    }
    let link = system.at(&format!("{WANTS}/{unit}"));
    crate::fsio::make_parent(&link)?;
    crate::fsio::remove(&link)?;
    std::os::unix::fs::symlink(path, &link).map_err(OpError::path("make the link", &link))?;
    Ok(Output::default())
}

fn disable(system: &RootedSystem, unit: &str) -> Result<Output, OpError> {
    crate::fsio::remove(&system.at(&format!("{WANTS}/{unit}")))?;
    // As systemctl does after the last link.
    let _ = std::fs::remove_dir(system.at(WANTS));
    Ok(Output::default())
}

/// The process continues: its invocation id does not change.
fn reload(system: &RootedSystem, state: &State, unit: &str) -> Result<Output, OpError> {
    let fail = |why: &str| Ok(Output::failed(1, format!("Failed to reload {unit}: {why}")));
    if !state.units.get(unit).is_some_and(|unit| unit.active) {
        return fail("Unit is not active, cannot reload.");
    }
    if !text(system, unit).lines().any(|line| line.starts_with("ExecReload=")) {
        return fail("Job type reload is not applicable for unit.");
    }
    Ok(Output::default())
}

fn start(system: &RootedSystem, state: &mut State, unit: &str) -> Result<Output, OpError> {
    let fail = |why: String| Ok(Output::failed(5, format!("Failed to start {unit}: {why}")));
    let text = text(system, unit);
    if text.is_empty() || !state.known.contains_key(unit) {
        return fail("Unit not found.".to_owned());
    }
    if masked(system, unit) {
        return fail("Unit is masked.".to_owned());
    }
    if state.known.get(unit) != Some(&Digest::of(&text)) {
        return fail("its unit file changed on disk, and nobody ran daemon-reload".to_owned());
    }
    let program = text.lines().rev().find_map(|line| line.strip_prefix("ExecStart=")).filter(|line| !line.is_empty());
    let program = program.and_then(|line| line.trim_start_matches(['-', '+', '!', '@', ':']).split_whitespace().next());
    match program {
        Some(program) if system.at(program).is_file() => {}
        None if unit.ends_with(".timer") => {
            let of = text.lines().find_map(|line| line.strip_prefix("Unit=")).unwrap_or_default();
            if !state.known.contains_key(of) {
                return fail(format!("it starts {of}, which is no unit"));
            }
            if !text.lines().any(|line| line.starts_with("OnCalendar=")) {
                return fail("a timer without a time is refused".to_owned());
            }
        }
        Some(program) => {
            let failed = super::state::Unit { failed: true, ..super::state::Unit::default() };
            state.units.insert(unit.to_owned(), failed);
            return fail(format!("its program {program} does not exist (203/EXEC)"));
        }
        None => return fail("it has no ExecStart".to_owned()),
    }
    if unit == kubexm_plan::etcd::UNIT
        && let Some(why) = super::etcd::start(system, state)?
    {
        return fail(why);
    }
    state.starts += 1;
    let invocation = format!("{:032x}", state.starts);
    let started = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let started = started.tv_sec.unsigned_abs() * 1_000_000 + started.tv_nsec.unsigned_abs() / 1000;
    state.units.insert(unit.to_owned(), super::state::Unit { active: true, failed: false, invocation, started });
    super::harbor::started(system, unit)?;
    if unit == "kubelet.service" {
        super::versions::kubelet_started(system, state, &system.hostname()?);
    }
    if unit == "containerd.service" {
        let socket = system.at("/run/containerd/containerd.sock");
        crate::fsio::make_parent(&socket)?;
        std::fs::write(&socket, b"").map_err(OpError::path("write", &socket))?;
    }
    if unit == super::cri_o::UNIT {
        super::cri_o::started(system)?;
    }
    super::docker::started(system, unit)?;
    super::isulad::started(system, unit)?;
    Ok(Output::default())
}
