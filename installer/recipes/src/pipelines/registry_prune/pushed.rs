//! What goes from a distribution registry or a Harbor beside the depot: only what kubexm has put there, by the ledger of its host, and of
//! that what no bundle that stays has.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::depot::DepotContent;
use kubexm_plan::ledger::Record;
use kubexm_plan::op::{Probe, RemovedContent, RemovedImages};
use kubexm_plan::pushed::{Content, in_harbor, laid_out};
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
    /// From Harbor, by repository.
    pub harbor: BTreeMap<String, RemovedImages>,
    /// References that are not answered for afterwards as before.
    pub gone: BTreeSet<String>,
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
        let registry = &cluster.registry;
        let put = match registry.kind {
            RegistryKind::Registry => laid_out(ledger, &registry.data_dir),
            RegistryKind::Harbor => in_harbor(ledger),
            RegistryKind::Embedded | RegistryKind::External | RegistryKind::None => return Self::default(),
        };
        let kept = Kept::of(cluster, staying, (&put.newest, needed));
        let mut pushed = Self::default();
        let mut repositories = BTreeMap::new();
        for (name, content) in &put.repositories {
            let going = |digest: &&Digest| !kept.has(name, digest);
            let manifests: BTreeSet<Digest> = content.manifests.iter().filter(going).copied().collect();
            let blobs: BTreeSet<Digest> = content.blobs.iter().filter(going).copied().collect();
            if manifests.is_empty() && blobs.is_empty() {
                continue;
            }
            pushed.gone.extend(manifests.iter().map(|digest| format!("{name}@{digest}")));
            let mut tags = BTreeMap::new();
            for (tag, named) in &content.tags {
                // Whatever was pushed last is what it names.
                if named.last().is_some_and(|last| manifests.contains(last)) {
                    pushed.gone.insert(format!("{name}:{tag}"));
                }
                let before = named.iter().rev().find(|digest| kept.tags(name, tag) && kept.has(name, digest));
                tags.extend(
                    before
                        .filter(|_| named.iter().any(|one| manifests.contains(one)))
                        .map(|digest| (tag.clone(), *digest)),
                );
            }
            if registry.kind == RegistryKind::Harbor {
                let images = manifests.iter().map(|manifest| (*manifest, content.tags_of(manifest))).collect();
                pushed.harbor.insert(name.clone(), RemovedImages { images, tags });
            } else {
                repositories.insert(name.clone(), RemovedContent { manifests, blobs, tags });
            }
        }
        pushed.layout = (!repositories.is_empty()).then(|| Layout {
            data_dir: registry.data_dir.clone(),
            repositories,
            url: own_url(cx, host, registry.port),
            login: cluster.depot_login().is_some(),
        });
        pushed
    }
}

/// What stays, by the names of repositories in the registry.
struct Kept<'a> {
    repositories: BTreeMap<String, BTreeSet<Digest>>,
    tags: BTreeSet<(String, String)>,
    needed: &'a BTreeSet<Digest>,
}

impl<'a> Kept<'a> {
    fn of<'c>(
        cluster: &Cluster,
        staying: impl Iterator<Item = &'c DepotConfig>,
        (newest, needed): (&Content, &'a BTreeSet<Digest>),
    ) -> Self {
        let mut kept = Self { repositories: newest.clone(), tags: BTreeSet::new(), needed };
        for (name, repository) in staying.flat_map(|content| &content.images) {
            let name = registries::in_registry(cluster, name);
            kept.tags.extend(repository.tags.keys().map(|tag| (name.clone(), tag.clone())));
            let all = kept.repositories.entry(name).or_default();
            all.extend(repository.tags.values().chain(&repository.manifests).chain(&repository.blobs));
        }
        kept
    }

    fn has(&self, name: &str, digest: &Digest) -> bool {
        self.needed.contains(digest) || self.repositories.get(name).is_some_and(|all| all.contains(digest))
    }

    /// Whether a bundle that stays has this tag.
    fn tags(&self, name: &str, tag: &str) -> bool {
        self.tags.contains(&(name.to_owned(), tag.to_owned()))
    }
}

/// How images may be named whose repository in the registry is this: the colon of a port is another character there. A name too many asks
/// about an image that nobody can have.
pub(super) fn spelled(image: &str) -> Vec<String> {
    let Some((host, rest)) = image.split_once('/') else { return vec![image.to_owned()] };
    let of_registry = host.contains('_').then(|| format!("{}/{rest}", host.replacen('_', ":", 1)));
    let of_harbor = host.rsplit_once('-').filter(|(_, port)| port.parse::<u16>().is_ok());
    let of_harbor = of_harbor.map(|(host, port)| format!("{host}:{port}/{rest}"));
    [Some(image.to_owned()), of_registry, of_harbor].into_iter().flatten().collect()
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
