//! What is installed in a cluster beyond its own, as its control planes say. Read-only and without the cluster's lock.

use std::time::Duration;

use kubexm_plan::addons::{AddonsAsk, InstalledAddons};
use kubexm_spec::Cluster;
use kubexm_spec::cluster::Keyword as _;

use crate::access::Access;
use crate::bundle::cluster_source::ClusterSource;
use crate::error::SessionError;
use crate::events;
use crate::fleet::{Fleet, Reach};
use crate::options::HostOptions;
use crate::session::Session;

/// Time limit for one control plane: each object is compared.
const LIMIT: Duration = Duration::from_secs(150);

/// The add-ons of a cluster.
#[derive(Clone, Debug)]
pub struct AddonsView {
    /// `metadata.name` of the cluster.yaml.
    pub cluster: String,
    /// The control plane that answered.
    pub host: String,
    /// Names of what makes volumes and of the add-ons of the cluster.yaml.
    pub wanted: Vec<String>,
    /// The pod network, whose release or record is listed, too.
    pub network: String,
    pub installed: InstalledAddons,
}

impl Session<'_> {
    /// Asks the control planes of a running cluster, one after the other until one answers.
    ///
    /// # Errors
    /// No host can be used, or no control plane answers.
    pub async fn installed_addons(
        &self,
        source: &ClusterSource,
        access: &Access,
        hosts: &HostOptions,
    ) -> Result<AddonsView, SessionError> {
        let cluster = source.cluster();
        let holder = self.holder("addons list", &cluster.name);
        let reach = Reach { access, bundle: source.bundle(), hosts, holder: &holder };
        let (fleet, _) = Fleet::connect_to_some(self, reach).await?;
        events::phase(self.events, "look");
        let asked = of(&fleet, cluster, &AddonsAsk { compare: true, ..AddonsAsk::default() }).await;
        fleet.revert_agents(self.events).await;
        fleet.close().await;
        self.check_interrupt()?;
        let (host, installed) = asked?;
        let storage = cluster.storage.provisioners().map(|provisioner| provisioner.release().to_owned());
        let wanted = storage.chain(cluster.addons.iter().map(|addon| addon.name.clone())).collect();
        let network = cluster.network.plugin.word().to_owned();
        Ok(AddonsView { cluster: cluster.name.clone(), host, wanted, network, installed })
    }
}

/// The answer of the first control plane that has one.
pub(crate) async fn of(
    fleet: &Fleet,
    cluster: &Cluster,
    ask: &AddonsAsk,
) -> Result<(String, InstalledAddons), SessionError> {
    let mut why = Vec::new();
    for name in &cluster.role_groups.control_plane {
        let Some(link) = fleet.link_of(name) else { continue };
        match tokio::time::timeout(LIMIT, link.link().addons(ask)).await {
            Ok(Ok(installed)) => return Ok((name.clone(), installed)),
            Ok(Err(error)) => why.push(error.to_string()),
            Err(_) => why.push(format!("{name} did not answer within {} s", LIMIT.as_secs())),
        }
    }
    if why.is_empty() {
        why.push("none of them can be reached".to_owned());
    }
    Err(SessionError::NoAddons { cluster: cluster.name.clone(), why: why.join("; ") })
}
