//! What of a backup the first control plane begins with: the cluster's authorities, and the data of etcd. Certificates of servers and
//! clients are not among it: kubeadm makes them for the new host.

use std::net::SocketAddr;

use kubexm_plan::kubeadm_certificates::PKI;
use kubexm_plan::op::{Blobs, Dir, RestoredEtcd, StateDir};
use kubexm_plan::{SlotName, SlotProvider, Step, Undo};
use kubexm_spec::Program;

use crate::backup_source::{BackupSource, PAIRS};
use crate::context::PlannedHost;
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::programs;

const KUBERNETES: &str = "/etc/kubernetes";
const KEY: &str = "backup-key";
/// Of etcd's members among each other.
const PEERS: u16 = 2380;

/// The archive, and the authorities where kubeadm looks for them before it makes its own. None of them on a control plane that is begun:
/// nothing may ever write others there.
pub fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>, source: &BackupSource) -> Result<Vec<Step>, RecipeError> {
    if !programs::wanted(draft.cx, node, Program::Etcd)? {
        return Err(RecipeError::Unsupported {
            what: "a cluster from a backup without etcd's tools (spec.bundle.exclude: etcd)".to_owned(),
            hint: "leave etcd out of spec.bundle.exclude and build the bundle again: etcdutl restores the data"
                .to_owned(),
        });
    }
    let archive = Step::on(node.name(), "control-plane.archive", "Copy the backup's archive to the host")
        .ensure(Blobs { blobs: [(source.archive.sha256, source.archive.size)].into(), depots: None, shared_at: None })
        .timeout_s(7_200)
        .undo(Undo::RestoreBefore)
        .build();
    if node.facts.joined {
        return Ok(vec![archive]);
    }
    let folders = [PKI.to_owned(), format!("{PKI}/etcd")].map(|path| Dir { path, mode: 0o755 });
    let mut step = Step::on(node.name(), "control-plane.authorities", "Give kubeadm the authorities of the backup")
        // It is kubeadm's, as after any other init: a reset removes the whole folder.
        .ensure(StateDir::at(KUBERNETES))
        .ensure_all(folders);
    for (certificate, key) in PAIRS {
        let text = source.text(certificate)?.to_owned();
        let mode = if certificate.ends_with(".pub") { 0o600 } else { 0o644 };
        let slot = format!("backup-{}", key.trim_start_matches(PKI).trim_start_matches('/').replace(['/', '.'], "-"));
        step = step.ensure(draft.file(certificate, mode, text)).ensure(draft.slot_file(
            key,
            0o600,
            &slot,
            SlotProvider::BackupFile { path: key.to_owned() },
        ));
    }
    Ok(vec![archive, step.undo(Undo::RestoreBefore).build()])
}

/// What its init restores first.
pub fn restored(draft: &mut Draft<'_>, node: &PlannedHost<'_>, source: &BackupSource) -> RestoredEtcd {
    let mode = &draft.cx.cluster.load_balancer.mode;
    let endpoint = mode.vip().map(|vip| SocketAddr::from((vip, mode.port())).to_string());
    RestoredEtcd {
        archive: source.archive.sha256,
        slots: vec![key(draft)],
        id: source.now.to_string(),
        node: node.name().to_owned(),
        peer: format!("https://{}", SocketAddr::from((node.ip, PEERS))),
        endpoint,
    }
}

fn key(draft: &mut Draft<'_>) -> SlotName {
    draft.slot(KEY, SlotProvider::BackupKey)
}
