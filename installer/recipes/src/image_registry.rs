//! The registry that runtimes pull images from: the cluster's own, or the user's.

use kubexm_plan::{LoginForm, SlotProvider};
use kubexm_spec::cluster::{EXTERNAL_CA, RegistryLogin};

use crate::context::PlanContext;
use crate::modules::{depot, login, registry};
use crate::paths;

/// Slot of the login of the user's registry.
const EXTERNAL_LOGIN_SLOT: &str = "external-registry-login";
/// Slot of its CA.
const EXTERNAL_CA_SLOT: &str = "external-registry-ca";

/// The registry as a runtime asks it.
#[derive(Clone, Debug)]
pub struct ImageRegistry<'a> {
    /// `registry.demo.kubexm.internal:5443`.
    pub address: String,
    /// Its CA; none if it is one that hosts know, or if no certificate is checked.
    pub ca: Option<Ca>,
    /// The slot of the `Authorization` header that it demands, with the login.
    pub login: Option<(&'static str, RegistryLogin<'a>)>,
    /// Whether its certificate is not checked, or it has none.
    pub insecure: bool,
    /// The user's: it has other images too, under names of its own.
    pub external: bool,
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

impl<'a> ImageRegistry<'a> {
    /// The registry of a cluster. None of it is used where the type is `none`.
    pub fn of(cx: &PlanContext<'a>) -> Self {
        let cluster = cx.cluster;
        let Some(external) = cluster.external_registry() else {
            let ca = Ca { path: paths::REGISTRY_CA, slot: depot::CA_SLOT, provider: SlotProvider::REGISTRY_CA };
            let login = cluster.depot_login().map(|login| (login::HEADER_SLOT, login));
            return Self { address: cx.registry_address(), ca: Some(ca), login, insecure: false, external: false };
        };
        let ca = external.ca_file.map(|_| Ca {
            path: paths::EXTERNAL_CA,
            slot: EXTERNAL_CA_SLOT,
            provider: SlotProvider::Secret { field: EXTERNAL_CA.to_owned() },
        });
        let login = cluster.external_login().map(|login| (EXTERNAL_LOGIN_SLOT, login));
        Self { address: external.address.to_owned(), ca, login, insecure: external.insecure, external: true }
    }

    /// The path below which the images of an upstream host are: `/v2/mirror/registry.k8s.io`.
    pub fn path(&self, cx: &PlanContext<'_>, host: &str) -> String {
        match cx.cluster.external_registry() {
            Some(external) => format!("/v2/{}", external.folder(host)),
            None => format!("/v2/{}", registry::folder(cx, host)),
        }
    }

    /// Who makes the header of the login.
    pub fn header(&self) -> Option<(&'static str, SlotProvider)> {
        self.login.map(|(slot, used)| (slot, login::provider(used, LoginForm::Header)))
    }
}
