//! The registry that runtimes pull images from: the cluster's own, or the user's.

use kubexm_plan::{LoginForm, SlotProvider};
use kubexm_spec::cluster::{EXTERNAL_CA, RegistryKind};

use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;
use crate::modules::{depot, harbor, login};
use crate::{paths, registries};

/// Slot of the login of the user's registry.
const EXTERNAL_LOGIN_SLOT: &str = "external-registry-login";
/// Slot of its CA.
const EXTERNAL_CA_SLOT: &str = "external-registry-ca";

/// The registry as a runtime asks it.
#[derive(Clone, Debug)]
pub struct ImageRegistry {
    /// `registry.demo.kubexm.internal:5443`, or an address of each host that serves it, in the order in which they are asked.
    pub addresses: Vec<String>,
    /// Its CA; none if it is one that hosts know, or if no certificate is checked.
    pub ca: Option<Ca>,
    /// The slot of the `Authorization` header that it demands, with who makes it.
    pub login: Option<(&'static str, SlotProvider)>,
    /// Whether its certificate is not checked, or it has none.
    pub insecure: bool,
    /// The user's.
    pub external: bool,
    /// It has other images too, under names of its own.
    pub shared: bool,
}

/// The file of a CA.
#[derive(Clone, Debug)]
pub struct Ca {
    /// On the node.
    pub path: &'static str,
    /// Its slot.
    pub slot: &'static str,
    /// Who has it.
    pub provider: SlotProvider,
}

impl ImageRegistry {
    /// The registry of a cluster, as this host asks it. None of it is used where the type is `none`.
    pub fn of(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Self, RecipeError> {
        let cluster = cx.cluster;
        let Some(external) = cluster.external_registry() else {
            let ca = Ca { path: paths::REGISTRY_CA, slot: depot::CA_SLOT, provider: SlotProvider::REGISTRY_CA };
            let shared = cluster.registry.kind == RegistryKind::Harbor;
            let (addresses, login) = if shared {
                (
                    vec![harbor::address(cx.cluster)],
                    harbor::header(cx).map(|provider| (harbor::ROBOT_LOGIN_SLOT, provider)),
                )
            } else {
                let header = |login| (login::HEADER_SLOT, login::provider(login, LoginForm::Header));
                (registries::pulled_from(cx, node)?, cluster.depot_login().map(header))
            };
            return Ok(Self { addresses, ca: Some(ca), login, insecure: false, external: false, shared });
        };
        let ca = external.ca_file.map(|_| Ca {
            path: paths::EXTERNAL_CA,
            slot: EXTERNAL_CA_SLOT,
            provider: SlotProvider::Secret { field: EXTERNAL_CA.to_owned() },
        });
        let header = |login| (EXTERNAL_LOGIN_SLOT, login::provider(login, LoginForm::Header));
        let login = cluster.external_login().map(header);
        let addresses = vec![external.address.to_owned()];
        Ok(Self { addresses, ca, login, insecure: external.insecure, external: true, shared: true })
    }

    /// The path below which the images of an upstream host are: `/v2/mirror/registry.k8s.io`.
    pub fn path(&self, cx: &PlanContext<'_>, host: &str) -> String {
        match cx.cluster.external_registry() {
            Some(external) => format!("/v2/{}", external.folder(host)),
            None => format!("/v2/{}", registries::folder(cx.cluster, host)),
        }
    }

    /// Who makes the header of the login.
    pub fn header(&self) -> Option<(&'static str, SlotProvider)> {
        self.login.clone()
    }
}
