//! A run from its folder to its end, and what the operator is told.

use std::path::{Path, PathBuf};

use kubexm_engine::replay::StepState;
use kubexm_engine::{ClusterPki, EventSink, ExecuteOptions, OnFailure, Outcome, Run, Status, execute, status};
use kubexm_plan::CheckedPlan;
use kubexm_spec::ExitCode;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::kubeconfig;
use crate::commands::args::{BundleArgs, HostArgs};
use crate::site::blobs::BundleBlobs;
use crate::site::fleet::Fleet;
use crate::site::opened::Opened;
use crate::support::events::{self, Shown};
use crate::support::home::ClusterHome;
use crate::support::{failures, start};

/// What a run is carried out with.
pub struct Site<'a> {
    /// Bundle and cluster.
    pub opened: &'a Opened,
    /// Hosts.
    pub fleet: &'a Fleet,
    /// Where the run's folder lies.
    pub home: &'a ClusterHome,
    /// Cancelled by Ctrl-C.
    pub cancel: &'a CancellationToken,
    /// Who reads.
    pub display: &'a Display,
}

impl Site<'_> {
    /// Carries the plan out, or on. The last event of the stream is told here when all went well.
    pub async fn carry_out(&self, mut run: Run, plan: &CheckedPlan, resume_command: String) -> Result<(), Failure> {
        let shown = Shown(self.display);
        events::note(&shown, format!("run {} in {}", run.id(), run.dir().display()));
        let pki = ClusterPki::open(&self.home.pki()).map_err(failures::engine)?;
        let blobs = BundleBlobs(self.opened.bundle.clone());
        let options =
            ExecuteOptions {
                cancel: self.cancel.clone(),
                on_failure: OnFailure::Keep,
                ..ExecuteOptions::new(start::TOOL, resume_command.clone())
            };
        let outcome = execute(plan, &self.fleet.links(), &mut run, &pki, &blobs, &shown, options).await;
        let outcome = outcome.map_err(|error| {
            let failure = failures::engine(error);
            Failure { text: format!("{}\nto go on: {resume_command}", failure.text), ..failure }
        })?;
        let status = status::of(run.id().as_str(), plan.plan(), run.replay());
        let report = run.dir().join("report.md");
        match outcome {
            Outcome::Succeeded => self.succeeded(&status, &report, &shown).await,
            Outcome::Failed | Outcome::Partial | Outcome::RolledBack | Outcome::Stuck => {
                Err(failed(&status, &report, outcome.exit_code()))
            }
            Outcome::Interrupted => {
                let text = format!("interrupted; what has begun is done\nto go on: {resume_command}");
                Err(Failure::new(outcome.exit_code(), text).with_data(json!({ "run": status, "report": report })))
            }
        }
    }

    async fn succeeded(&self, status: &Status, report: &Path, shown: &dyn EventSink) -> Result<(), Failure> {
        let kubeconfig = self.home.kubeconfig();
        kubeconfig::fetch(self.fleet, &self.opened.cluster, self.home).await.map_err(|failure| {
            let text = format!(
                "the cluster is there, its kubeconfig could not be fetched: {}\nit lies on the first control plane as \
                 /etc/kubernetes/admin.conf",
                failure.text
            );
            Failure { text, ..failure }
        })?;
        events::note(shown, format!("report: {}", report.display()));
        let counts = &status.counts;
        self.display.emit(EventKind::Result {
            ok: true,
            exit_code: ExitCode::Ok.code(),
            summary: format!(
                "cluster {} is ready: {} steps changed something, {} held already\n\nNext:\n  kubectl --kubeconfig {} \
                 get nodes,pods -A\n  {} report {}",
                status.cluster,
                counts.done,
                counts.satisfied,
                shell_word(&kubeconfig.to_string_lossy()),
                program(),
                status.run,
            ),
            data: Some(json!({ "run": status, "kubeconfig": kubeconfig, "report": report })),
        });
        Ok(())
    }
}

fn failed(status: &Status, report: &Path, code: ExitCode) -> Failure {
    let mut text = String::new();
    for step in status.steps.iter().filter(|step| step.state == StepState::Failed) {
        let error = step.error.as_deref().unwrap_or("no reason was given");
        text.push_str(&format!("{} ({}) failed: {error}\n", step.title, step.step));
    }
    text.push_str(&format!("report: {}", report.display()));
    if let Some(command) = &status.go_on {
        text.push_str(&format!("\nto go on when it is mended: {command}"));
    }
    Failure::new(code, text).with_data(json!({ "run": status, "report": report }))
}

/// The exact command that goes on with a run, from any folder.
pub fn resume_command(run: &str, bundle: &BundleArgs, hosts: &HostArgs) -> String {
    let mut words = vec![program(), "resume".to_owned(), run.to_owned()];
    let mut option = |name: &str, path: &Path| {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
        words.extend([name.to_owned(), shell_word(&absolute.to_string_lossy())]);
    };
    option("--bundle", &bundle.bundle);
    if let Some(file) = &bundle.file {
        option("-f", file);
    }
    if let Some(known_hosts) = &hosts.known_hosts {
        option("--known-hosts", known_hosts);
    }
    words.join(" ")
}

/// This program as the operator called it.
fn program() -> String {
    let called = std::env::args().next().unwrap_or_default();
    match called.as_str() {
        "" => kubexm_spec::names::INSTALLER.to_owned(),
        name if name.contains('/') => {
            shell_word(&std::path::absolute(name).unwrap_or_else(|_| PathBuf::from(name)).to_string_lossy())
        }
        name => shell_word(name),
    }
}

/// One word for a shell, quoted only when it must be.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn a_path_with_blanks_can_be_pasted_into_a_shell() {
        assert_eq!(shell_word("/media/usb/x.tar.zst"), "/media/usb/x.tar.zst");
        assert_eq!(shell_word("/media/my usb/it's.zst"), r"'/media/my usb/it'\''s.zst'");
    }
}
