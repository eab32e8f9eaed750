//! One chart with the values that it is rendered and installed with.

use std::path::PathBuf;

use kubexm_spec::ArtifactKey;
use kubexm_spec::rendering::merged;
use serde_json::{Map, Value, json};

/// How one chart (or YAML add-on) is rendered and installed.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartRelease {
    /// `chart/NAME` or `yaml/NAME`.
    pub key: ArtifactKey,
    /// Of helm's release.
    pub name: String,
    /// Where its objects go that name no namespace.
    pub namespace: String,
    /// What only the site knows (addresses, numbers of hosts); below all other values.
    pub site: Vec<SiteValue>,
    /// Of ours: file and values are laid over them.
    pub defaults: Map<String, Value>,
    /// Laid over those of `values_file`, see [`kubexm_spec::rendering::merged`].
    pub values: Map<String, Value>,
    /// As written, relative to cluster.yaml; the builder makes it ready to be opened.
    pub values_file: Option<PathBuf>,
}

/// A value that is known when hosts are.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteValue {
    /// Where it goes among the chart's values.
    pub path: &'static [&'static str],
    /// What it is.
    pub what: SiteFact,
}

/// What a site value is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteFact {
    /// The control planes' addresses, with commas between them.
    ControlPlaneAddresses,
    /// How many control planes there are, and no more than this.
    ControlPlanes {
        /// What upstream runs.
        most: u32,
    },
    /// How many nodes there are, and no more than this.
    Nodes {
        /// What upstream runs.
        most: u32,
    },
    /// Where nodes find the API server without kube-proxy.
    ApiServerHost,
    /// Its port.
    ApiServerPort,
}

/// What is known of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteFacts {
    /// Addresses of the control planes.
    pub control_planes: Vec<String>,
    /// Number of all nodes.
    pub nodes: u32,
    /// Where nodes find the API server.
    pub api_host: String,
    /// Its port.
    pub api_port: u16,
}

impl SiteFacts {
    /// One node at an address of TEST-NET-1 (RFC 5737): what stands for a site where none is known. It changes no image.
    fn placeholder() -> Self {
        let address = || "192.0.2.1".to_owned();
        Self { control_planes: vec![address()], nodes: 1, api_host: address(), api_port: 6443 }
    }

    fn value(&self, fact: SiteFact) -> Value {
        let count = |number: u32, most: u32| json!(number.clamp(1, most.max(1)));
        match fact {
            SiteFact::ControlPlaneAddresses => json!(self.control_planes.join(",")),
            SiteFact::ControlPlanes { most } => count(u32::try_from(self.control_planes.len()).unwrap_or(most), most),
            SiteFact::Nodes { most } => count(self.nodes, most),
            SiteFact::ApiServerHost => json!(self.api_host),
            SiteFact::ApiServerPort => json!(self.api_port),
        }
    }
}

impl ChartRelease {
    /// The values that images are learnt from, with placeholders of the site. `file` is what `values_file` holds.
    pub fn rendered(&self, file: Map<String, Value>) -> Map<String, Value> {
        self.installed(file, &SiteFacts::placeholder())
    }

    /// The values that it is installed with.
    pub fn installed(&self, file: Map<String, Value>, facts: &SiteFacts) -> Map<String, Value> {
        let site = self.site.iter().fold(Map::new(), |all, value| {
            let known = facts.value(value.what);
            let nested = value.path.iter().rev().fold(known, |inner, name| json!({ *name: inner }));
            nested.as_object().map_or_else(|| all.clone(), |nested| merged(all.clone(), nested))
        });
        merged(merged(merged(site, &self.defaults), &file), &self.values)
    }
}
