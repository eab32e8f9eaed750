//! The arguments of `resume` and `rollback` where no bundle is named: those that the run has recorded.

use std::path::Path;

use clap::Parser;
use kubexm_engine::EventSink;
use kubexm_session::{Direction, Home, RecordedCommand, escaped, events};
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;

use super::args::{BundleArgs, FailureArgs, HostArgs};
use super::resume_command::Again;

/// Which run is continued, and with what.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Its id, if it was named or found.
    pub run: Option<String>,
    pub bundle: BundleArgs,
    pub hosts: HostArgs,
    pub failure: FailureArgs,
    /// Whether the bundle is the one that the run has recorded.
    recorded: Option<RecordedCommand>,
}

/// A command that [`Again`] has written.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Command {
    _verb: String,
    _run: String,
    #[command(flatten)]
    bundle: BundleArgs,
    #[command(flatten)]
    hosts: HostArgs,
    #[command(flatten)]
    failure: FailureArgs,
}

impl Inputs {
    /// What was typed; without a bundle completed by what the run has recorded. `run` is the one that was named.
    pub fn of(
        home: &Home,
        direction: Direction,
        run: Option<&str>,
        typed: (&BundleArgs, &HostArgs, &FailureArgs),
        shown: &dyn EventSink,
    ) -> Result<Self, Failure> {
        let (bundle, hosts, failure) = (typed.0.clone(), typed.1.clone(), typed.2.clone());
        let run = run.map(str::to_owned);
        if !bundle.bundle.is_empty() {
            return Ok(Self { run, bundle, hosts, failure, recorded: None });
        }
        let found = home.recorded_command(run.as_deref(), direction)?;
        let Some(Command { bundle: mut was, hosts: host, failure: fail, .. }) = parsed(&found.command) else {
            let RecordedCommand { cluster, run, command } = &found;
            let text =
                format!("the command that run {run} of cluster {cluster} has recorded is not understood; type it: ");
            return Err(Failure::new(ExitCode::Usage, text + command));
        };
        was.file = bundle.file.or(was.file);
        was.replace.allow_older |= bundle.replace.allow_older;
        was.replace.allow_other_signer |= bundle.replace.allow_other_signer;
        let hosts = HostArgs { known_hosts: hosts.known_hosts.or(host.known_hosts), ..hosts };
        let failure = completed(failure, &fail);
        let run = Some(found.run.clone());
        let inputs = Self { run, bundle: was, hosts, failure, recorded: Some(found) };
        inputs.check_files(direction)?;
        inputs.report(shown);
        Ok(inputs)
    }

    /// The same with another bundle.
    fn command(&self, direction: Direction) -> String {
        let again = Again { bundle: &self.bundle, hosts: &self.hosts, failure: &self.failure };
        again.with_another_bundle(direction, self.run.as_deref().unwrap_or_default())
    }

    /// Fails if a file that the run was started with is not there any more.
    fn check_files(&self, direction: Direction) -> Result<(), Failure> {
        let missing = |path: &&std::path::PathBuf| !path.exists();
        let Self { bundle, recorded: Some(RecordedCommand { cluster, run, .. }), .. } = self else { return Ok(()) };
        let begin = |path: &Path| {
            let path = escaped(&path.to_string_lossy());
            format!("run {run} of cluster {cluster} was started with {path}, which is not there now; ")
        };
        if let Some(path) = bundle.bundle.iter().chain(&bundle.bases).find(missing) {
            let text = "bring it back (attach its medium), or name the same bundle where it is now: ";
            return Err(Failure::new(ExitCode::Usage, begin(path) + text + &self.command(direction)));
        }
        let others = bundle.file.iter().chain(&bundle.trust.keys).chain(&bundle.trust.signatures);
        match others.chain(&self.hosts.known_hosts).find(missing) {
            Some(path) => {
                Err(Failure::new(ExitCode::Usage, begin(path) + "bring it back, and type the same command again"))
            }
            None => Ok(()),
        }
    }

    fn report(&self, shown: &dyn EventSink) {
        let Some(RecordedCommand { cluster, run, .. }) = &self.recorded else { return };
        let path = |path: &std::path::PathBuf| escaped(&path.to_string_lossy());
        let mut with: Vec<String> = self.bundle.bundle.iter().map(path).collect();
        with.extend(self.bundle.file.iter().map(path));
        events::note(shown, format!("run {run} of cluster {cluster} was started with {}", with.join(", ")));
    }

    /// The error of a run that belongs to another bundle or cluster.yaml than the recorded file has by now.
    pub fn explain(&self, direction: Direction, failure: impl Into<Failure>) -> Failure {
        let mut failure: Failure = failure.into();
        if self.recorded.is_some() && failure.code == ExitCode::PlanMismatch {
            failure.text += "\nthe file was replaced since the run began; name the one that it was started with: ";
            failure.text += &self.command(direction);
        }
        failure
    }
}

/// What was typed, and for the rest what the run was started with. A drill is never repeated.
fn completed(typed: FailureArgs, recorded: &FailureArgs) -> FailureArgs {
    FailureArgs {
        on_failure: typed.on_failure.or(recorded.on_failure),
        max_failed_workers: typed.max_failed_workers.or(recorded.max_failed_workers),
        no_fan_out: typed.no_fan_out || recorded.no_fan_out,
        drill: typed.drill,
    }
}

/// The program's name, which comes first, may be any.
fn parsed(command: &str) -> Option<Command> {
    let words = shlex::split(command)?;
    Command::try_parse_from(words.into_iter().skip(1)).ok()
}

#[cfg(test)]
mod tests {
    use kubexm_session::Commands as _;

    use super::*;
    use crate::commands::args::{OnFailure, ReplaceArgs, TrustArgs};

    #[test]
    fn every_argument_that_a_printed_command_has_is_read_back() {
        let trust = TrustArgs {
            keys: vec!["/keys/a.pub".into(), "/keys/it's b.pub".into()],
            signatures: vec!["/media/x.sig".into()],
            require_signature: true,
            allow_unsigned: false,
        };
        let bundle = BundleArgs {
            bundle: vec!["/media/my usb/x.001".into(), "/media/x.002".into()],
            bases: vec!["/media/old.tar.zst".into()],
            file: Some("/etc/plant/cluster.yaml".into()),
            trust,
            replace: ReplaceArgs { allow_older: true, allow_other_signer: true },
        };
        let hosts = HostArgs { accept_new_host_keys: false, known_hosts: Some("/etc/known".into()) };
        let failure = FailureArgs {
            on_failure: Some(OnFailure::Keep),
            max_failed_workers: Some(3),
            no_fan_out: true,
            drill: None,
        };
        let again = Again { bundle: &bundle, hosts: &hosts, failure: &failure };
        let read = parsed(&again.resume("run")).unwrap();
        let copy = Again { bundle: &read.bundle, hosts: &read.hosts, failure: &read.failure };
        assert_eq!(copy.resume("run"), again.resume("run"));
        let read = parsed(&again.rollback("run")).unwrap();
        let copy = Again { bundle: &read.bundle, hosts: &read.hosts, failure: &read.failure };
        assert_eq!(copy.rollback("run"), again.rollback("run"));
        assert!(parsed("kubexm-install resume run --option-of-a-later-program").is_none());
    }

    #[test]
    fn what_is_typed_goes_before_what_was_recorded_also_where_it_is_a_default() {
        let of = |words: &str| parsed(&format!("kubexm-install resume run --bundle x {words}")).unwrap().failure;
        let recorded = of("--on-failure keep --max-failed-workers 3");
        let both = |typed: &str| {
            let failure = completed(of(typed), &recorded);
            (failure.on_failure, failure.max_failed_workers)
        };
        assert_eq!(both(""), (Some(OnFailure::Keep), Some(3)));
        assert_eq!(both("--on-failure rollback"), (Some(OnFailure::Rollback), Some(3)));
        assert_eq!(both("--max-failed-workers 0"), (Some(OnFailure::Keep), Some(0)));
    }
}
