//! `--os-packages`: what a node has installed in an older version than the bundle has it is upgraded in the node's turn.
//!
//! It comes last in the turn, while no pods run there: the older packages are not in the bundle, so nothing before it could be rolled
//! back any more. Pods that come back end the way back of a node in any case.

use std::collections::BTreeMap;

use kubexm_plan::op::{NodeAnnotation, PACKAGES};
use kubexm_plan::{Step, Undo};

use super::options::UpgradeOptions;
use crate::context::PlanContext;
use crate::error::RecipeError;
use crate::modules::packages;
use crate::packages::{NodePackages, OlderPackages, older};
use crate::phases::ClusterHosts;

/// What an upgrade of packages is not.
const RUN_ON: &str = "services and programs of upgraded packages go on with the files of before until they are started again, and no host is \
                      rebooted: do that where a fix matters, one drained node at a time";

/// The upgrades of all nodes.
#[derive(Debug, Default)]
pub(super) struct OsPackages<'a> {
    by_node: BTreeMap<&'a str, NodePackages<'a>>,
    /// Of the plan.
    now: i64,
    /// One sentence each.
    pub warnings: Vec<String>,
}

impl<'a> OsPackages<'a> {
    /// None without the option.
    ///
    /// # Errors
    /// The cluster was adopted, or a node's packages cannot be compared with the bundle's.
    pub(super) fn of(
        cx: &PlanContext<'a>,
        site: &ClusterHosts<'a>,
        (adopted, options): (bool, &UpgradeOptions),
    ) -> Result<Self, RecipeError> {
        let mut all = Self { now: options.now, ..Self::default() };
        if !options.os_packages {
            return Ok(all);
        }
        if adopted {
            let problems = vec!["its nodes' packages are not kubexm's: upgrade without --os-packages".to_owned()];
            let cluster = cx.cluster.name.clone();
            let by_hand = "packages are upgraded by hand, node by node, once a node is drained";
            return Err(RecipeError::ByHand { cluster, what: "upgrade packages", problems, by_hand });
        }
        let (mut apart, mut problems) = (Vec::new(), Vec::new());
        // By the reason, since hosts of a fleet are alike.
        let mut kept_on: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for node in &site.nodes {
            if !node.in_cluster() {
                apart.push(node.name());
                continue;
            }
            // What is missing comes with the content, and may take the place of something.
            let missing = packages::of_node(cx, node)?;
            let gone = missing.iter().flat_map(|missing| missing.replaced()).map(|(name, _)| name.as_str()).collect();
            let OlderPackages { planned, kept } = match older(cx, node.facts, &gone) {
                Ok(found) => found,
                Err(why) => {
                    problems.push(format!("{}: {why}", node.name()));
                    continue;
                }
            };
            for why in kept {
                kept_on.entry(why).or_default().push(node.name());
            }
            if let Some(planned) = planned {
                all.by_node.insert(&node.host.name, planned);
            }
        }
        if !problems.is_empty() {
            return Err(RecipeError::OlderPackages { problems });
        }
        all.warnings.extend(kept_on.into_iter().map(|(why, nodes)| format!("{}: {why}", nodes.join(", "))));
        if !all.by_node.is_empty() {
            all.warnings.push(RUN_ON.to_owned());
        }
        if !apart.is_empty() {
            let hosts = apart.join(", ");
            all.warnings.push(format!("{hosts}: no node, and so never drained: installed packages stay as they are"));
        }
        Ok(all)
    }

    /// Of a node; none if it has nothing in an older version.
    pub(super) fn of_node(&self, node: &str) -> Option<&NodePackages<'a>> {
        self.by_node.get(node)
    }

    /// What its node says once it has them.
    pub(super) fn mark(&self, node: &str) -> Option<String> {
        self.of_node(node).map(|planned| packages::mark(planned, self.now))
    }
}

/// Says on the node object that the node has these packages. A plan that is run again does not drain it for them once more.
pub(super) fn marked(on: &str, node: &str, mark: String) -> Step {
    Step::on(on, &format!("upgrade.packages-{node}"), &format!("Note on node {node} that it has the bundle's packages"))
        .domain(node)
        .ensure(NodeAnnotation { node: node.to_owned(), key: PACKAGES.to_owned(), value: mark })
        .retries(3)
        .undo(Undo::RestoreBefore)
        .build()
}
