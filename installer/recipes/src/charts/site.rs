//! What only the site knows, in place of the placeholders with which the builder rendered a chart.

use kubexm_manifests::{ChartRelease, chart_storage};
use serde_json::{Map, Value, json};

use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;

/// Replicas of an operator, each on a node of its own.
const OPERATORS: usize = 2;
/// Replicas of what runs on control planes.
const MANAGERS: usize = 3;

/// The values of the site for each placeholder of a chart; none for a chart without.
pub fn site(cx: &PlanContext<'_>, release: &ChartRelease) -> Result<Map<String, Value>, RecipeError> {
    if let Some(values) = chart_storage::site_values(cx.cluster, release) {
        return Ok(values);
    }
    let nodes = cx.nodes()?;
    let known = Known { cx, control_planes: cx.control_planes(&nodes)?, nodes };
    known.map(release.placeholders(), "")
}

struct Known<'a> {
    cx: &'a PlanContext<'a>,
    nodes: Vec<PlannedHost<'a>>,
    control_planes: Vec<PlannedHost<'a>>,
}

impl Known<'_> {
    fn map(&self, placeholders: &Map<String, Value>, within: &str) -> Result<Map<String, Value>, RecipeError> {
        let each = placeholders.iter().map(|(name, value)| {
            let value = match value {
                Value::Object(inner) => Value::Object(self.map(inner, name)?),
                _ => self.value(within, name)?,
            };
            Ok((name.clone(), value))
        });
        each.collect()
    }

    fn value(&self, within: &str, name: &str) -> Result<Value, RecipeError> {
        let control_planes = self.control_planes.len();
        let members = self.nodes.iter().filter(|node| node.in_cluster()).count();
        Ok(match (within, name) {
            ("operator", "replicas") => json!(members.clamp(1, OPERATORS)),
            (_, "replicas") => json!(control_planes.clamp(1, MANAGERS)),
            (_, "replicaCount") => json!(control_planes),
            (_, "MASTER_NODES") => {
                let addresses: Vec<String> = self.control_planes.iter().map(|node| node.ip.to_string()).collect();
                addresses.join(",").into()
            }
            (_, "k8sServiceHost") => self.cx.control_plane_name().into(),
            (_, "k8sServicePort") => self.cx.cluster.control_plane_port().into(),
            (_, other) => {
                let reason = format!("nothing is known of the site for {other}");
                return Err(RecipeError::Document { name: "values of a chart", reason });
            }
        })
    }
}
