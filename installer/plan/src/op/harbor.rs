//! The cluster's own Harbor, as the ops that change something in it reach it.

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::kind::Needs;
use crate::resource::Resource;
use crate::slot::SlotName;

/// The unit that runs Harbor.
pub const HARBOR_UNIT: &str = "kubexm-harbor.service";

/// Harbor's address, and the files on its host that open it. It is asked on its own host, as its administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HarborAccess {
    /// `registry.demo.kubexm.internal`, with a port that is not 443.
    pub registry: String,
    /// PEM file on the node with the CA of its certificate.
    pub ca: String,
    /// File on the node with the password of the user admin.
    pub admin_password: String,
}

impl HarborAccess {
    /// `https://registry.demo.kubexm.internal`.
    pub fn url(&self) -> String {
        format!("https://{}", self.registry)
    }

    /// Harbor runs, and its CA is there. The file of the password is written when it starts.
    pub(super) fn needs<'a>(&self, slots: &'a [SlotName], blobs: Vec<Digest>) -> Needs<'a> {
        let resources = vec![Resource::Path(self.ca.clone()), Resource::Unit(HARBOR_UNIT.to_owned())];
        Needs { slots, blobs, resources, ..Needs::nothing() }
    }
}
