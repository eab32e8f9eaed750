//! The cluster's authorities on its control planes, sealed for the operators, so that none of them is the only one who has them.

use std::collections::BTreeMap;

use kubexm_plan::{Recipient, SEALED_AUTHORITIES, SlotProvider, Step, Undo};
use kubexm_spec::cluster::Cluster;

use crate::context::{PlannedHost, Sealing};
use crate::draft::Draft;
use crate::modules::issued::{Slots, slot_file};

const SLOT: &str = "sealed-authorities";

/// On every control plane, before anything that an authority signed is used there. None for a cluster without an id.
pub fn step(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Option<Step> {
    let sealing = draft.cx.sealing.filter(|_| draft.cx.cluster_id.is_some() && node.roles.control_plane)?;
    let cluster = draft.cx.cluster;
    Some(seal(draft.slots(), cluster, sealing, node.name()))
}

/// The same on a control plane of a cluster that has an id.
pub fn seal(slots: &mut Slots, cluster: &Cluster, sealing: &Sealing, host: &str) -> Step {
    let provider = SlotProvider::SealedAuthorities {
        recipients: recipients(cluster, &sealing.others),
        new_registry_ca: sealing.new_registry_ca,
    };
    let title = match sealing.new_registry_ca {
        true => "Keep a new CA of the registry, sealed for the operators",
        false => "Keep the CA of the registry, sealed for the operators",
    };
    Step::on(host, "authorities.seal", title)
        .ensure(slot_file(slots, SEALED_AUTHORITIES, 0o600, SLOT, provider))
        .undo(Undo::RestoreBefore)
        .build()
}

/// Those of cluster.yaml, and the others.
fn recipients(cluster: &Cluster, others: &[String]) -> Vec<Recipient> {
    let mut names: BTreeMap<&str, Option<&str>> = others.iter().map(|key| (key.as_str(), None)).collect();
    names.extend(cluster.operators.iter().map(|operator| (operator.recipient.as_str(), Some(operator.name.as_str()))));
    let recipient =
        |(key, name): (&str, Option<&str>)| Recipient { key: key.to_owned(), name: name.map(str::to_owned) };
    names.into_iter().map(recipient).collect()
}
