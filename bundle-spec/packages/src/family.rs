//! What differs between the families: the order of versions, and the grammar of relations.

use std::cmp::Ordering;

use kubexm_spec::Family;

use crate::model::{ArchWanted, Deferred, Package, RelationError, Relations, Requirement};

/// The order of two versions by the rules of their family: `[epoch:]version[-revision]` (deb-version(7)) or
/// `[epoch:]version[-release]` (rpm's `rpmvercmp`).
pub fn compare(family: Family, one: &str, other: &str) -> Ordering {
    match family {
        Family::Deb => crate::deb::version::compare(one, other),
        Family::Rpm => crate::rpm::version::compare(one, other),
    }
}

impl Package {
    /// What it needs and what it cannot stand.
    pub fn relations(&self) -> Result<Relations, RelationError> {
        match &self.relations {
            Deferred::Ready(relations) => Ok((**relations).clone()),
            Deferred::Rpm(lines) => crate::rpm::dependency::relations(lines),
            Deferred::Deb { pre_depends, depends, conflicts, breaks } => {
                let mut requires = crate::deb::relation::parse(pre_depends)?;
                requires.extend(crate::deb::relation::parse(depends)?);
                let mut against = crate::deb::relation::parse(conflicts)?;
                against.extend(crate::deb::relation::parse(breaks)?);
                against.iter_mut().for_each(any_is_every);
                Ok(Relations { requires, conflicts: against, obsoletes: Vec::new() })
            }
        }
    }
}

/// What cannot be stood does not ask of the other that it is `Multi-Arch: allowed` (dpkg's `deparchsatisfied`).
fn any_is_every(against: &mut Requirement) {
    match against {
        Requirement::One(one) if one.arch == ArchWanted::Any => one.arch = ArchWanted::Every,
        Requirement::Any(all) => all.iter_mut().for_each(any_is_every),
        _ => {}
    }
}
