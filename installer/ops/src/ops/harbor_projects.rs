//! Projects and the nodes' robot in Harbor, made through its API.

use std::collections::BTreeSet;

use kubexm_plan::op::{FoundProjects, HarborProjects};
use zeroize::Zeroizing;

use crate::harbor::{Harbor, ROBOT_PREFIX, has_rights, not_started};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for HarborProjects {
    fn observe(&self, machine: &Machine) -> Result<FoundProjects, OpError> {
        let Some(harbor) = reached(self, machine)? else { return Ok(FoundProjects::Unknown) };
        let (mut missing, mut other) = (BTreeSet::new(), BTreeSet::new());
        for name in &self.projects {
            match harbor.project(name)? {
                None => drop(missing.insert(name.clone())),
                Some(found)
                    if (found.public, found.storage) != (self.public, storage(self)) || !found.is_administrators() =>
                {
                    other.insert(name.clone());
                }
                Some(_) => {}
            }
        }
        let robot = harbor.robot(&self.robot)?;
        let robot_works = match &robot {
            Some(robot) if has_rights(robot, &names(self)) => {
                harbor.accepts(&format!("{ROBOT_PREFIX}{}", self.robot), &secret(self, machine)?)?
            }
            _ => false,
        };
        Ok(FoundProjects::Known { missing, other, robot: robot.is_some(), robot_works })
    }

    fn satisfied(&self, found: &FoundProjects, _: &Machine) -> bool {
        match found {
            FoundProjects::Unknown => false,
            FoundProjects::Known { missing, other, robot_works, .. } => {
                missing.is_empty() && other.is_empty() && *robot_works
            }
        }
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let harbor = Harbor::of(machine, &self.harbor)?.ok_or_else(|| not_started(&self.harbor))?;
        for name in &self.projects {
            if harbor.project(name)?.is_none() {
                harbor.make_project(name, self.public, storage(self))?;
            }
            harbor.change_project(name, self.public, storage(self))?;
        }
        harbor.make_robot(&self.robot, &names(self), &secret(self, machine)?)
    }

    /// While Harbor itself is taken away nothing is asked: what is in it stays with its data.
    fn restore(&self, machine: &Machine, before: &FoundProjects, wave: Wave) -> Result<(), OpError> {
        let FoundProjects::Known { missing, robot, .. } = before else { return Ok(()) };
        if wave != Wave::Stop {
            return Ok(());
        }
        let Some(harbor) = reached(self, machine)? else { return Ok(()) };
        if !robot {
            harbor.remove_robot(&self.robot)?;
        }
        missing.iter().try_for_each(|name| harbor.remove_empty_project(name))
    }
}

/// None while nobody answers.
fn reached<'m>(op: &HarborProjects, machine: &'m Machine) -> Result<Option<Harbor<'m>>, OpError> {
    Ok(Harbor::of(machine, &op.harbor)?.filter(Harbor::is_up))
}

fn names(op: &HarborProjects) -> Vec<&str> {
    op.projects.iter().map(String::as_str).collect()
}

/// -1 is Harbor's word for no limit.
fn storage(op: &HarborProjects) -> i64 {
    op.quota.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
}

fn secret(op: &HarborProjects, machine: &Machine) -> Result<Zeroizing<String>, OpError> {
    let slot = op
        .slots
        .first()
        .ok_or_else(|| OpError::other("the robot's secret has no slot; this is a fault of the plan".to_owned()))?;
    let text = String::from_utf8(machine.slot(slot)?.to_vec());
    text.map(Zeroizing::new).map_err(|_| OpError::other(format!("the value of slot {} is not UTF-8 text", slot.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use crate::dispatch;
    use crate::fake::harbor_host::{harbor, projects};

    impl Cases for HarborProjects {
        const TESTED: Tested<Case<Self>> =
            Tested::Here(&[("projects and a robot of Harbor, of which one project is there", |h| {
                harbor(h);
                let found = projects(h, &["quay.io"], false);
                dispatch::converge(&found.into(), &h.machine).expect("what is there");
                projects(h, &["quay.io", "registry.k8s.io"], true)
            })]);
    }
}
