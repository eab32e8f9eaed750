//! The commands that runs have recorded for being resumed or rolled back: whoever has lost the arguments finds them there.

use kubexm_engine::replay::RunState;
use kubexm_engine::run::read_status;
use kubexm_engine::{RunId, Status};
use kubexm_spec::{ExitCode, error_chain};

use super::ended::Direction;
use crate::error::SessionError;
use crate::home::{ClusterHome, Home};

/// A run, and the complete command that continues it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCommand {
    /// The cluster.
    pub cluster: String,
    /// The run's id.
    pub run: String,
    /// As [`crate::Commands`] made it.
    pub command: String,
}

impl Home {
    /// The command of the named run, or of the only cluster whose last run can be resumed or rolled back.
    ///
    /// # Errors
    /// There is no such run, or there are several; the text names each with what to type.
    pub fn recorded_command(&self, named: Option<&str>, direction: Direction) -> Result<RecordedCommand, SessionError> {
        let (mut found, mut others, mut code) = (Vec::new(), Vec::new(), ExitCode::Usage);
        for cluster in self.clusters()? {
            let mut ids = cluster.run_ids()?.into_iter();
            let id = match named {
                Some(name) => ids.find(|id| id.as_str() == name),
                None => ids.next_back(),
            };
            let Some(id) = id else { continue };
            let why = match read_status(&cluster.runs(), &id) {
                Ok(status) => match command(&cluster, &id, &status, named.is_some(), direction) {
                    Ok(command) => {
                        found.push(command);
                        continue;
                    }
                    Err(why) => why,
                },
                Err(error) => {
                    code = code.worst(error.exit_code());
                    format!("cannot be read: {}", error_chain(&error))
                }
            };
            others.push(format!("run {id} of cluster {} {why}", cluster.name));
        }
        let verb = match direction {
            Direction::Forward => "resumed",
            Direction::Back => "rolled back",
        };
        match (found.pop(), found.is_empty()) {
            (Some(one), true) => Ok(one),
            (Some(last), false) => {
                let each = found.iter().chain([&last]).map(|one| format!("\n{}: {}", one.cluster, one.command));
                let each: String = each.collect();
                Err(SessionError::Run(format!(
                    "runs of several clusters can be {verb}; type the command of one of them:{each}"
                )))
            }
            (None, _) if others.is_empty() => Err(SessionError::Run(match named {
                Some(name) => format!("there is no run {name}; `kubexm-install status` lists the runs"),
                None => "there are no runs yet; `kubexm-install --bundle FILE` starts one".to_owned(),
            })),
            (None, _) => {
                let others = others.join("; ");
                let text = format!("there is no run that can be {verb} without more arguments: {others}");
                Err(match code {
                    ExitCode::Usage => SessionError::Run(text),
                    code => SessionError::UnreadableRun { text, code },
                })
            }
        }
    }
}

/// The command that a run has recorded, or why there is none.
fn command(
    cluster: &ClusterHome,
    id: &RunId,
    status: &Status,
    named: bool,
    direction: Direction,
) -> Result<RecordedCommand, String> {
    let in_use = matches!(status.state, RunState::Succeeded | RunState::Partial);
    let command = match direction {
        Direction::Forward => status.go_on.clone(),
        Direction::Back => status.roll_back.clone(),
    };
    match command {
        // Running `rollback` twice would remove the cluster.
        Some(_) if in_use && !named && direction == Direction::Back => {
            Err(format!("succeeded, and what it made may be in use; to roll it back, name it: {id}"))
        }
        Some(command) if status.pipeline.needs().bundle => {
            Ok(RecordedCommand { cluster: cluster.name.clone(), run: id.to_string(), command })
        }
        Some(command) => Err(format!("is a {}: {command}", status.pipeline)),
        None => Err(why_not(status).to_owned()),
    }
}

const fn why_not(status: &Status) -> &'static str {
    match status.state {
        RunState::Succeeded => "has succeeded: there is nothing to continue",
        RunState::RolledBack => "was rolled back: start a new one with `kubexm-install --bundle FILE`",
        RunState::New => "has not started: start a new one with `kubexm-install --bundle FILE`",
        _ => "recorded no command",
    }
}
