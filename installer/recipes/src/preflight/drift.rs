//! Files that kubeadm wrote on a node and that were edited since. `create` does not change them: it shows the edits.

use super::input::PreflightInput;
use super::report::{Report, word};

/// Below it are copies of the files as kubeadm wrote them, by their paths.
const COPIES: &str = "/var/lib/kubexm/kubeadm";
const KUBELET: &str = "/var/lib/kubelet/";

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in input.nodes() {
        let Some(files) = &host.facts.kubeadm_files else { continue };
        for changed in &files.changed {
            let path = &changed.what;
            let restart = match path.starts_with(KUBELET) {
                true => ", then `systemctl restart kubelet`",
                false => "; kubelet restarts the pod",
            };
            report.warn(
                host.name(),
                format!("{path} edited since kubeadm wrote it ({})", changed.how),
                "what kubeadm wrote: `create` leaves this file as it is",
                format!(
                    "to undo the edit, on that host: `cp {} {}`{restart}",
                    word(&format!("{COPIES}{path}")),
                    word(path)
                ),
            );
            report.show(changed.diff.clone());
        }
    }
}
