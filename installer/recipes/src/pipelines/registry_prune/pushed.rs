//! What goes from a distribution registry or a Harbor beside the depot: only what kubexm has put there, by the ledger of its host, and of
//! that what no bundle that stays has.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::depot::DepotContent;
use kubexm_plan::ledger::Record;
use kubexm_plan::op::{Probe, RemovedContent};
use kubexm_plan::pushed::{HarborContent, in_harbor, laid_out};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{Cluster, RegistryKind};
use kubexm_spec::depot::DepotConfig;

use super::check::refused;
use super::context::PruneContext;
use super::recorded::{digest_part, is_same, own_url, short};
use crate::error::RecipeError;
use crate::{paths, registries};

/// What goes from the registry beside a depot.
#[derive(Clone, Debug, Default)]
pub(super) struct Pushed {
    /// From the storage of the distribution registry; none if there is nothing.
    pub layout: Option<Layout>,
    /// From Harbor.
    pub harbor: HarborContent,
}

/// Content of the distribution registry.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub data_dir: String,
    pub repositories: BTreeMap<String, RemovedContent>,
    /// Where it is asked; none if its host has no address.
    url: Option<String>,
    /// Whether it demands a login.
    login: bool,
}

impl Layout {
    /// Asks it for manifests that it must not have any more.
    pub fn lacks(&self, manifests: BTreeMap<String, BTreeSet<Digest>>) -> Probe {
        Probe::RegistryLacks {
            url: self.url.clone().unwrap_or_default(),
            ca: paths::REGISTRY_OWN_CA.to_owned(),
            login: self.login.then(|| paths::REGISTRY_OWN_LOGIN.to_owned()),
            manifests,
        }
    }
}

impl Pushed {
    /// `staying` is the content of all bundles that stay, and `needed` is what a run has brought that is not known yet.
    pub fn leaving<'a>(
        cx: &PruneContext<'_>,
        (host, ledger): (&str, &[Record]),
        staying: impl Iterator<Item = &'a DepotConfig>,
        needed: &BTreeSet<Digest>,
    ) -> Self {
        let cluster = cx.cluster;
        let kept = Kept::of(cluster, staying, needed);
        match cluster.registry.kind {
            RegistryKind::Registry => {
                let data_dir = cluster.registry.data_dir.clone();
                let mut repositories = laid_out(ledger, &data_dir);
                repositories.retain(|name, content| {
                    content.manifests.retain(|digest| !kept.has(name, digest));
                    content.blobs.retain(|digest| !kept.has(name, digest));
                    !content.manifests.is_empty() || !content.blobs.is_empty()
                });
                let layout = (!repositories.is_empty()).then(|| Layout {
                    data_dir,
                    repositories,
                    url: own_url(cx, host, cluster.registry.port),
                    login: cluster.depot_login().is_some(),
                });
                Self { layout, ..Self::default() }
            }
            RegistryKind::Harbor => {
                let mut harbor = in_harbor(ledger);
                harbor.retain(|name, manifests| {
                    manifests.retain(|manifest, _| !kept.has(name, manifest));
                    !manifests.is_empty()
                });
                Self { harbor, ..Self::default() }
            }
            RegistryKind::Embedded | RegistryKind::External | RegistryKind::None => Self::default(),
        }
    }
}

/// What stays, by the names of repositories in the registry.
struct Kept<'a> {
    repositories: BTreeMap<String, BTreeSet<Digest>>,
    needed: &'a BTreeSet<Digest>,
}

impl<'a> Kept<'a> {
    fn of<'c>(cluster: &Cluster, staying: impl Iterator<Item = &'c DepotConfig>, needed: &'a BTreeSet<Digest>) -> Self {
        let mut repositories: BTreeMap<String, BTreeSet<Digest>> = BTreeMap::new();
        for (name, repository) in staying.flat_map(|content| &content.images) {
            let all = repositories.entry(registries::in_registry(cluster, name)).or_default();
            all.extend(repository.tags.values().chain(&repository.manifests).chain(&repository.blobs));
        }
        Self { repositories, needed }
    }

    fn has(&self, name: &str, digest: &Digest) -> bool {
        self.needed.contains(digest) || self.repositories.get(name).is_some_and(|all| all.contains(digest))
    }
}

/// The depot as the registry beside it answers: with the images of the bundle that the cluster has now, which only the record of that
/// bundle names.
///
/// # Errors
/// There is no such record, so nobody knows what the cluster needs.
pub(super) fn answering(
    cx: &PruneContext<'_>,
    (host, depot): (&str, &DepotContent),
) -> Result<DepotContent, RecipeError> {
    let mut depot = depot.clone();
    if !matches!(cx.cluster.registry.kind, RegistryKind::Registry | RegistryKind::Harbor) {
        return Ok(depot);
    }
    let stamps = cx.facts.values().filter_map(|facts| facts.stamp.as_ref()?.bundle.as_ref());
    let stamped: BTreeSet<String> = stamps.map(|bundle| short(&bundle.manifest)).collect();
    let unknown = stamped.iter().find(|short| !depot.bundles.keys().any(|name| digest_part(name) == *short));
    let now = depot.config.as_ref().and_then(|config| {
        let same = depot.bundles.iter().filter(|(_, bundle)| is_same(config, &bundle.content));
        same.max_by_key(|(name, bundle)| (stamped.contains(digest_part(name)), bundle.written))
    });
    let (Some((_, now)), None) = (now, unknown) else {
        return Err(refused(&format!(
            "{host} has no record of the bundle that the cluster has now; run `kubexm-install create`, which writes it"
        )));
    };
    let images = now.content.images.clone();
    if let Some(config) = &mut depot.config {
        config.images = images;
    }
    Ok(depot)
}
