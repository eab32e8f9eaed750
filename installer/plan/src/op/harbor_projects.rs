//! Projects of a Harbor of the cluster's own, and the robot account by which nodes pull from them.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::harbor::HarborAccess;
use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};
use crate::slot::SlotName;

/// Projects by name, with their visibility and quota, and a robot account that may pull from them. Harbor has no repository
/// without a project. What others made there is kept: other projects, other robots, what is in the projects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HarborProjects {
    /// Where they are made.
    pub harbor: HarborAccess,
    /// Names.
    pub projects: BTreeSet<String>,
    /// Whether everybody may pull from them.
    pub public: bool,
    /// Most bytes of each; none for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
    /// Name of the robot, without the prefix that Harbor puts before it.
    pub robot: String,
    /// The slot of its secret.
    pub slots: Vec<SlotName>,
}

/// What Harbor has of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FoundProjects {
    /// There is no Harbor, or it does not answer.
    Unknown,
    /// It answers.
    Known {
        /// Projects that are missing.
        missing: BTreeSet<String>,
        /// Projects with another visibility or quota.
        other: BTreeSet<String>,
        /// Whether there is such a robot.
        robot: bool,
        /// Whether its secret and its rights are the right ones.
        robot_works: bool,
    },
}

impl OpKind for HarborProjects {
    type State = FoundProjects;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let slots: String = self.slots.iter().map(SlotName::placeholder).collect();
        let quota = self.quota.map_or_else(|| "none".to_owned(), |bytes| bytes.to_string());
        let projects = self.projects.iter().map(|name| {
            let value = format!("public {} quota {quota}", self.public);
            ResourceChange::sets(Resource::HarborProject(name.clone()), value)
        });
        let robot = ResourceChange::sets(Resource::HarborRobot(self.robot.clone()), format!("secret {slots}"));
        projects.chain([robot]).collect()
    }

    fn needs(&self) -> Needs<'_> {
        self.harbor.needs(&self.slots, Vec::new())
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::RestoredAndMade
    }
}

impl fmt::Display for HarborProjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let projects: Vec<&str> = self.projects.iter().map(String::as_str).collect();
        let kind = if self.public { "public" } else { "private" };
        write!(f, "{kind} projects {} and robot {} of {}", projects.join(" "), self.robot, self.harbor.url())?;
        match self.quota {
            Some(bytes) => write!(f, ", {bytes} bytes each"),
            None => Ok(()),
        }
    }
}

impl State for FoundProjects {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    /// Projects that are not empty are kept, and what is in Harbor stays with its data.
    fn is_back(&self, _: &Self) -> Option<bool> {
        Some(true)
    }
}
