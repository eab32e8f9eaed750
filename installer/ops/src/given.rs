//! Files that a step of kubexm has written where kubeadm writes its own: a site's CA, and what it has signed. They say nothing of an init or
//! a join.

use std::collections::BTreeSet;

use kubexm_plan::{Op, ledger};

use crate::{Machine, OpError};

/// Paths of files that steps have written, and that were not rolled back.
pub(crate) fn paths(machine: &Machine) -> Result<BTreeSet<String>, OpError> {
    let records = machine.ledger().records()?;
    let ops = ledger::not_rolled_back(records.iter()).flat_map(|record| &record.ops);
    let path = |op: &Op| match op {
        Op::File(file) => Some(file.path.clone()),
        _ => None,
    };
    Ok(ops.filter_map(path).collect())
}
