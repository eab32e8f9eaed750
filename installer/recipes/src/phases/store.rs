//! The bundle's content on the hosts: the store of each, and the registry that serves it.

use kubexm_plan::StepId;

use crate::context::PlannedHost;
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::modules::{depot, harbor, registry, trust};
use crate::packages::NodePackages;

/// The steps after which the hosts of the registry serve; empty until these hosts, which are the first ones, were planned.
#[derive(Debug, Default)]
pub(crate) struct Serves {
    /// The first of them has the blobs, which the others fetch from it.
    source: Vec<StepId>,
    /// Blobs of the content store. With Harbor the depot has them long before Harbor has all images.
    blobs: Vec<StepId>,
    /// Images.
    pub images: Vec<StepId>,
}

impl Serves {
    /// The content store of a host.
    pub fn store(
        &self,
        draft: &mut Draft<'_>,
        node: &PlannedHost<'_>,
        packages: &[&NodePackages<'_>],
        chain: &mut Chain,
    ) -> Result<(), RecipeError> {
        let depots = trust::depots(draft.cx, node)?;
        if depots.is_some() {
            chain.then([trust::ca(draft, node)]);
            chain.wait(if node.roles.registry { &self.source } else { &self.blobs });
        }
        chain.then([trust::fetch_from(depots, depot::store(draft, node, packages))]);
        Ok(())
    }

    /// The depot and the registry on one of their hosts, after its store; nothing on the others.
    pub fn services(
        &mut self,
        draft: &mut Draft<'_>,
        node: &PlannedHost<'_>,
        chain: &mut Chain,
    ) -> Result<(), RecipeError> {
        if !node.roles.registry {
            return Ok(());
        }
        chain.then([depot::serve(draft, node)?]);
        chain.then(registry::steps(draft, node)?);
        if self.source.is_empty() {
            self.source = chain.tail().to_vec();
        }
        self.blobs.extend(chain.tail().iter().cloned());
        chain.then(harbor::steps(draft, node)?);
        self.images.extend(chain.tail().iter().cloned());
        Ok(())
    }
}
