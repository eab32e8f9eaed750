//! The site's own CA of the cluster (`spec.kubernetes.ca`): put where kubeadm looks for one before it makes its own.
//!
//! The first control plane gets it; kubeadm hands it to those that join, as it does with its own. Without its key it comes with what it
//! has signed ([`super::site_certificates`]).

use kubexm_plan::kubeadm_certificates::{CLUSTER_CA, CLUSTER_CA_SECRET, PKI};
use kubexm_plan::op::Dir;
use kubexm_plan::{SlotProvider, Step, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{CLUSTER_CA_KEY, ClusterCa, one_certificate};

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;

const SLOT: &str = "cluster-ca-key";

/// Its certificate and key; none where kubeadm makes its own, and none on a control plane that runs: preflight compares what it has,
/// and nothing may ever write another CA there.
pub fn step(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Option<Step>, RecipeError> {
    // From a backup it comes with the other authorities.
    let makes = !node.facts.joined && draft.cx.from_backup.is_none();
    let Some(ca) = of(draft.cx)?.filter(|ca| makes && !ca.signs_elsewhere()) else { return Ok(None) };
    let certificate = certificate(draft.cx, ca)?;
    let key = SlotProvider::Secret { field: CLUSTER_CA_KEY.to_owned() };
    Ok(Some(
        Step::on(node.name(), "control-plane.ca", "Give kubeadm the CA of your site")
            .ensure(Dir { path: PKI.to_owned(), mode: 0o755 })
            .ensure(draft.file(CLUSTER_CA, 0o644, certificate))
            .ensure(draft.slot_file(CLUSTER_CA_SECRET, 0o600, SLOT, key))
            .undo(Undo::RestoreBefore)
            .build(),
    ))
}

/// Whether the certificate is that of a running control plane; none where cluster.yaml has none, or the bundle does not have it.
pub fn is_of(cx: &PlanContext<'_>, found: Digest) -> Option<bool> {
    let ca = of(cx).ok().flatten()?;
    Some(Digest::of(certificate(cx, ca).ok()?) == found)
}

fn of<'a>(cx: &PlanContext<'a>) -> Result<Option<&'a ClusterCa>, RecipeError> {
    Ok(cx.kubernetes()?.ca.as_ref())
}

/// Its certificate as it is on hosts.
///
/// # Errors
/// The bundle does not have it, or it is not one certificate.
pub fn certificate(cx: &PlanContext<'_>, ca: &ClusterCa) -> Result<String, RecipeError> {
    one_certificate(cx.material(&ca.cert_file)?).map_err(|why| RecipeError::Unsupported {
        what: format!("spec.kubernetes.ca.certFile ({}): {why}; such a file", ca.cert_file.name),
        hint: "give the certificate of the CA alone, in PEM, and build the bundle again".to_owned(),
    })
}
