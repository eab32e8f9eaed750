//! Which bundles stay and which go, which images go with them, and which blobs nothing names any more.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::Facts;
use kubexm_plan::depot::{self, DepotContent, Filled};
use kubexm_plan::ledger::Record;
use kubexm_spec::Digest;
use kubexm_spec::cluster::RegistryKind;
use kubexm_spec::depot::DepotConfig;

use super::check::refused;
use super::context::{Bundle, Keep, PruneContext};
use super::pushed::{self, Pushed};
use super::recorded::{SHORT, digest_part, is_same, own_url, short};
use crate::error::RecipeError;

/// What goes from a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaving {
    /// Records by the names of their bundles, with their digests.
    pub bundles: BTreeMap<String, Digest>,
    /// What only these bundles name.
    pub named: BTreeSet<Digest>,
    /// Blobs that nothing names afterwards, with their sizes.
    pub blobs: BTreeMap<Digest, u64>,
    /// Where the depot is asked; none if its host has no address.
    pub url: Option<String>,
    /// Whether the depot demands a login.
    pub login: bool,
    /// What the distribution registry or Harbor of this host has beside it.
    pub pushed: Pushed,
}

pub(super) struct Selection {
    pub bundles: Vec<Bundle>,
    pub hosts: BTreeMap<String, Leaving>,
    /// References that no registry host answers for afterwards as it did before.
    pub gone: BTreeSet<String>,
}

impl Selection {
    pub fn of(cx: &PruneContext<'_>) -> Result<Self, RecipeError> {
        readable(cx)?;
        let names: BTreeSet<&String> = cx.depots.values().flat_map(|depot| depot.bundles.keys()).collect();
        let kept = kept(cx.keep, &names)?;
        let present = present(cx.facts, cx.depots);
        let stays = |name: &str| kept.contains(name) || present.contains(name);
        let mut bundles = bundles(cx.facts, cx.depots);
        bundles.iter_mut().for_each(|bundle| bundle.kept = stays(&bundle.name));
        let (mut hosts, mut gone) = (BTreeMap::new(), BTreeSet::new());
        for (host, depot) in cx.depots {
            let depot = &pushed::answering(cx, (host, depot))?;
            gone.extend(gone_images(depot, stays));
            let ledger = cx.ledgers.get(host).map(Vec::as_slice).unwrap_or_default();
            let leaving = leaving(cx, (host, depot), ledger, stays);
            // What is deleted is asked about, also where no record names it any more.
            gone.extend(leaving.pushed.gone.iter().cloned());
            hosts.insert(host.clone(), leaving);
        }
        let gone = match cx.cluster.registry.kind {
            RegistryKind::Registry | RegistryKind::Harbor => {
                gone.iter().flat_map(|image| pushed::spelled(image)).collect()
            }
            RegistryKind::Embedded | RegistryKind::External | RegistryKind::None => gone,
        };
        Ok(Self { bundles, hosts, gone })
    }
}

/// Refuses what cannot be judged: every record counts, also one that cannot be read.
fn readable(cx: &PruneContext<'_>) -> Result<(), RecipeError> {
    for (host, depot) in cx.depots {
        if depot.config.is_none() {
            return Err(refused(&format!(
                "{host} has no depot ({} is missing); run `kubexm-install create`, which writes it",
                depot::CONFIG
            )));
        }
        if let Some((path, why)) = depot.unreadable.first_key_value() {
            return Err(refused(&format!(
                "{host}: {path} cannot be read, so nobody knows what it needs: {why}. The depot serves nothing of it either; if nobody wants \
                 its bundle back, delete the file and run this again",
            )));
        }
        let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
        if let Some(name) = depot.bundles.keys().find(|name| !name.chars().all(usual) || name.starts_with('.')) {
            return Err(refused(&format!(
                "{host}: {name:?} in {} is no name of a record that kubexm-install writes",
                depot::BUNDLES
            )));
        }
    }
    Ok(())
}

/// The bundles that the cluster has now, by name: those that the hosts' stamps name (hosts of an upgrade that paused have different ones),
/// and those that the depots are configured with.
fn present(facts: &BTreeMap<String, Facts>, depots: &BTreeMap<String, DepotContent>) -> BTreeSet<String> {
    let stamps = facts.values().filter_map(|facts| facts.stamp.as_ref()?.bundle.as_ref());
    let stamped: BTreeSet<String> = stamps.map(|bundle| short(&bundle.manifest)).collect();
    let mut present = BTreeSet::new();
    for depot in depots.values() {
        let same = |content: &DepotConfig| depot.config.as_ref().is_some_and(|config| is_same(config, content));
        let is_stamped = |name: &str| stamped.contains(digest_part(name));
        // Where the configuration names no images, bundles with other images alone look the same.
        let other = depot.config.as_ref().is_some_and(|config| config.images.is_empty())
            && depot.bundles.iter().any(|(name, bundle)| is_stamped(name) && same(&bundle.content));
        let is_now = |name: &str, content: &DepotConfig| is_stamped(name) || !other && same(content);
        let now = depot.bundles.iter().filter(|(name, bundle)| is_now(name, &bundle.content));
        present.extend(now.map(|(name, _)| name.clone()));
    }
    present
}

/// The names that the operator keeps. Each must be that of one bundle.
fn kept(keep: &[Keep], names: &BTreeSet<&String>) -> Result<BTreeSet<String>, RecipeError> {
    let known = || match names.is_empty() {
        true => "it has none".to_owned(),
        false => format!("it has {}", names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")),
    };
    let mut kept = BTreeSet::new();
    for one in keep {
        let (wanted, matching): (String, Vec<&&String>) = match one {
            Keep::Manifest(digest) => {
                let short = short(digest);
                let all = names.iter().filter(|name| digest_part(name) == short).collect();
                (format!("the bundle with the manifest {digest}"), all)
            }
            Keep::Name(text) => {
                // A record that one host has by a shorter name must not stand for the bundle that is meant.
                let whole = digest_part(text).len() == SHORT && names.contains(text);
                let begins = |name: &str| name.starts_with(text) || digest_part(name).starts_with(text);
                let is_meant = |name: &&&String| if whole { name.as_str() == text } else { begins(name) };
                (format!("{text:?}"), names.iter().filter(is_meant).collect())
            }
        };
        match matching.as_slice() {
            [name] => kept.insert((**name).clone()),
            [] => return Err(refused(&format!("{wanted}, which --keep names, is not in the registry; {}", known()))),
            _ => return Err(refused(&format!("{wanted}, which --keep names, may be several bundles; {}", known()))),
        };
    }
    Ok(kept)
}

/// What the registry hosts serve, over all of them, by name. Nothing is decided: all are kept.
pub fn bundles(facts: &BTreeMap<String, Facts>, depots: &BTreeMap<String, DepotContent>) -> Vec<Bundle> {
    let present = present(facts, depots);
    let mut sizes: BTreeMap<Digest, u64> = BTreeMap::new();
    let mut found: BTreeMap<&String, (&DepotConfig, Vec<String>)> = BTreeMap::new();
    for (host, depot) in depots {
        sizes.extend(&depot.blobs);
        for (name, bundle) in &depot.bundles {
            found.entry(name).or_insert_with(|| (&bundle.content, Vec::new())).1.push(host.clone());
        }
    }
    let named: BTreeMap<&String, BTreeSet<Digest>> =
        found.iter().map(|(name, (content, _))| (*name, depot::named(content))).collect();
    let mut times: BTreeMap<Digest, usize> = BTreeMap::new();
    named.values().flatten().for_each(|digest| *times.entry(*digest).or_default() += 1);
    let bytes = |digests: &mut dyn Iterator<Item = &Digest>| {
        digests.fold(0_u64, |sum, digest| sum.saturating_add(sizes.get(digest).copied().unwrap_or_default()))
    };
    let of_one = |(name, (content, hosts)): (&String, (&DepotConfig, Vec<String>))| {
        let all = &named[name];
        let own = |digest: &&Digest| times.get(*digest) == Some(&1);
        Bundle {
            name: name.clone(),
            present: present.contains(name),
            kept: true,
            size: bytes(&mut all.iter()),
            own: bytes(&mut all.iter().filter(own)),
            images: content.images.values().map(|repository| repository.tags.len().max(1)).sum(),
            hosts,
        }
    };
    found.into_iter().map(of_one).collect()
}

/// Images that a depot answers for, and would not, or with others, when only the bundles that `stays` accepts are left: by tag, and by
/// digest.
pub fn gone_images(depot: &DepotContent, stays: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut gone = BTreeSet::new();
    let (Some(mut before), Some(after)) = (depot.served(|_| true), depot.served(stays)) else { return gone };
    // What a removal that was cut off has left is asked about once more.
    depot.left.values().for_each(|bundle| before.add_earlier(bundle.content.clone()));
    for (name, repository) in &before.images {
        let left = after.images.get(name);
        for (tag, digest) in &repository.tags {
            if left.and_then(|left| left.tags.get(tag)) != Some(digest) {
                gone.insert(format!("{name}:{tag}"));
            }
        }
        let is_left = |digest: &&Digest| left.is_some_and(|left| left.manifests.contains(*digest));
        gone.extend(
            repository.manifests.iter().filter(|digest| !is_left(digest)).map(|digest| format!("{name}@{digest}")),
        );
    }
    gone
}

fn leaving(
    cx: &PruneContext<'_>,
    (host, depot): (&str, &DepotContent),
    ledger: &[Record],
    stays: impl Fn(&str) -> bool,
) -> Leaving {
    let filled = Filled::of(ledger);
    let (left, gone): (Vec<_>, Vec<_>) = depot.bundles.iter().partition(|(name, _)| stays(name));
    let mut needed: BTreeSet<Digest> = filled.needed.clone();
    needed.extend(depot.config.iter().flat_map(depot::named));
    needed.extend(left.iter().flat_map(|(_, bundle)| depot::named(&bundle.content)));
    let gone_contents = gone.iter().map(|(_, bundle)| *bundle).chain(depot.left.values());
    let named = gone_contents.flat_map(|bundle| depot::named(&bundle.content));
    let named: BTreeSet<Digest> = named.filter(|digest| !needed.contains(digest)).collect();
    // Also what bundles have brought before there were records, and what an interrupted run has left.
    let ours = |digest: &Digest| named.contains(digest) || filled.ever.contains(digest);
    let blobs = depot.blobs.iter().filter(|(digest, _)| !needed.contains(digest) && ours(digest));
    let blobs = blobs.map(|(digest, size)| (*digest, *size)).collect();
    let config = depot.config.as_ref();
    let staying = config.into_iter().chain(left.iter().map(|(_, bundle)| &bundle.content));
    let pushed = Pushed::leaving(cx, (host, ledger), staying, &filled.needed);
    Leaving {
        pushed,
        bundles: gone.into_iter().map(|(name, bundle)| (name.clone(), bundle.digest)).collect(),
        blobs,
        named,
        url: config.and_then(|config| own_url(cx, host, config.listen.port())),
        login: config.is_some_and(|config| config.login.is_some()),
    }
}
