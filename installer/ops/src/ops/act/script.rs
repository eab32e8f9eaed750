//! Scripts of the user on a host: their progress, recorded in a file, and their execution with a timeout, in the folder
//! of the materials, with limited output that is quoted without credentials.

use kubexm_plan::op::Progress;
use kubexm_spec::credential;
use serde::{Deserialize, Serialize};

use crate::fsio::{self, Access};
use crate::system::{ActContext, Program};
use crate::{Machine, OpError, paths, transient};

/// Runs `$1/$2` in `$1/files`, with its exit code. The first and the last 256 KiB of the output are kept. Without
/// `${…}`, which systemd would expand (systemd.service(5), "Command lines").
const WRAPPER: &str = "set -o pipefail; mkdir -p \"$1/files\" && cd \"$1/files\" || exit 1; \
                       bash \"$1/$2\" 2>&1 | { head -c 262144; tail -c 262144; }";
/// Maximum length of a quoted line.
const LONGEST: usize = 400;

/// A script by its files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) folder: &'a str,
    pub(super) timeout_s: u64,
}

/// The content of `/var/lib/kubexm/acts/script-<id>.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mark {
    ended_well: bool,
    /// The step that started it, until it has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    act: Option<ActContext>,
}

impl Script<'_> {
    /// From the record, and from the unit that runs it. A script with an unreadable record counts as started.
    pub(super) fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        let Some(bytes) = fsio::read(&machine.path(self.mark()))? else { return Ok(Progress::NotBegun) };
        let mark = serde_json::from_slice(&bytes).unwrap_or(Mark { ended_well: false, act: None });
        if mark.ended_well {
            return Ok(Progress::Done);
        }
        // The agent was killed between the script's end and the update of the record.
        let ended = mark.act.map(|act| transient::ended(machine, &act)).transpose()?.flatten();
        Ok(if ended == Some(true) { Progress::Done } else { Progress::HalfDone })
    }

    /// Runs the script from its start, and records that.
    pub(super) fn run(&self, machine: &Machine) -> Result<(), OpError> {
        self.write_mark(machine, &Mark { ended_well: false, act: machine.act().cloned() })?;
        self.call(machine, "run.sh")?;
        self.ended_well(machine)
    }

    /// Waits for a running script that was started earlier; none if there is none.
    pub(super) fn attach(&self, machine: &Machine) -> Result<Option<()>, OpError> {
        let bytes = fsio::read(&machine.path(self.mark()))?.unwrap_or_default();
        let act = serde_json::from_slice::<Mark>(&bytes).ok().and_then(|mark| mark.act);
        match act {
            Some(act) if transient::is_running(machine, &act)? => self.call(&machine.with_act(act), "run.sh").map(Some),
            _ => Ok(None),
        }
    }

    /// Stops the script if it runs, and runs the user's own undo. The record is deleted after the undo has succeeded,
    /// so that an interrupted undo is repeated.
    pub(super) fn undo(&self, machine: &Machine) -> Result<(), OpError> {
        let bytes = fsio::read(&machine.path(self.mark()))?.unwrap_or_default();
        if let Some(act) = serde_json::from_slice::<Mark>(&bytes).ok().and_then(|mark| mark.act) {
            transient::stop(machine, &act)?;
        }
        let own = machine.act().map(|act| ActContext { step: format!("{}.undo-script", act.step), ..act.clone() });
        let machine = own.map_or_else(|| machine.clone(), |own| machine.with_act(own));
        self.call(&machine, "undo.sh")?;
        fsio::remove(&machine.path(self.mark()))?;
        // Only if no other act has left a record.
        let _ = std::fs::remove_dir(machine.path(format!("{}/acts", paths::STATE)));
        Ok(())
    }

    pub(super) fn ended_well(&self, machine: &Machine) -> Result<(), OpError> {
        self.write_mark(machine, &Mark { ended_well: true, act: None })
    }

    /// The error for a half-done script without an undo.
    pub(super) fn left_half_done(&self, machine: &Machine) -> OpError {
        let log = machine.act().map(ActContext::log).unwrap_or_default();
        OpError::other(format!(
            "script {:?} was started here and did not succeed, and cluster.yaml has no undo for it: it is not run \
             again automatically. Look at what it did ({log} has its output), complete or undo that by hand, then \
             delete {} to run it again from its start, or write {{\"endedWell\":true}} into it to count it as done, \
             and run again",
            self.name,
            self.mark()
        ))
    }

    fn call(&self, machine: &Machine, file: &str) -> Result<(), OpError> {
        let args = ["-c", WRAPPER, "kubexm", self.folder, file];
        let bash = Program::new("bash").args(args).within(self.timeout_s);
        let what = if file == "undo.sh" { "undo of script" } else { "script" };
        machine.run_act(&bash).map(drop).map_err(|error| match error {
            OpError::Program { status, stderr, .. } => {
                OpError::other(format!("{what} {:?} failed ({status}): {}", self.name, shown(&stderr)))
            }
            OpError::Other(text) => OpError::other(format!("{what} {:?}: {}", self.name, shown(&text))),
            other => other,
        })
    }

    fn mark(&self) -> String {
        format!("{}/acts/script-{}.json", paths::STATE, self.id)
    }

    fn write_mark(&self, machine: &Machine, mark: &Mark) -> Result<(), OpError> {
        let text = serde_json::to_vec(mark)
            .map_err(|error| OpError::other(format!("{} cannot be written as JSON: {error}", self.mark())))?;
        machine.write_file(&self.mark(), &text, Access::mode(0o600))
    }
}

/// Output for messages: without lines that contain a credential or belong to a private key, and with long lines
/// truncated.
fn shown(text: &str) -> String {
    let (mut lines, mut in_key) = (Vec::new(), false);
    for line in text.lines() {
        let (begins, ends) = (line.contains("-----BEGIN "), line.contains("-----END "));
        in_key |= begins;
        let hidden = in_key || credential::in_text(line).is_some();
        in_key &= !ends;
        lines.push(if hidden { "(a line with a credential)".to_owned() } else { line.chars().take(LONGEST).collect() });
    }
    lines.dedup();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_quoted_without_credentials_and_cut() {
        let text = format!(
            "begin\ntoken: hunter2\n-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n{}\n",
            "x".repeat(500)
        );
        assert_eq!(shown(&text), format!("begin\n(a line with a credential)\n{}", "x".repeat(400)));
    }

    #[test]
    fn a_real_bash_ends_as_the_script_does_in_the_folder_of_its_materials_and_says_no_more_than_is_kept() {
        assert!(!WRAPPER.contains("${") && !WRAPPER.contains("$$"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        std::fs::create_dir(folder.path().join("files")).unwrap();
        std::fs::write(folder.path().join("files/disks.txt"), "sdb\n").unwrap();
        let run = |text: &str| {
            std::fs::write(folder.path().join("run.sh"), text).unwrap();
            let output =
                std::process::Command::new("bash").args(["-c", WRAPPER, "kubexm", path, "run.sh"]).output().unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        assert_eq!(run("cat disks.txt; echo no >&2; exit 7\n"), (Some(7), "sdb\nno\n".to_owned()));
        assert_eq!(run("true\n"), (Some(0), String::new()));
        let (code, said) = run("echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last\n");
        assert_eq!((code, said.len()), (Some(0), 2 * 262_144));
        assert!(said.starts_with("first\n") && said.ends_with("\nlast\n"));
        std::fs::remove_file(folder.path().join("run.sh")).unwrap();
        let gone = std::process::Command::new("bash").args(["-c", WRAPPER, "kubexm", path, "run.sh"]).output().unwrap();
        assert_eq!(gone.status.code(), Some(127));
    }
}
