//! What a build would put into a bundle, platform by platform, before a byte is fetched.

use std::collections::BTreeMap;
use std::path::Path;

use kubexm_manifests::requirements::{PackageNeed, Source};
use kubexm_manifests::{Checked, Doubt};
use kubexm_manifests::{Notice, Requirement};
use kubexm_spec::cluster::{Acceptance, EVERY_OTHER, ImageSignatureRule};
use kubexm_spec::{ArtifactKey, Lock, Platform};
use serde::Serialize;
use tokio::runtime::Handle;

use super::chart_images::{self, ChartImages};
use crate::ahead::{self, Ahead};
use crate::base::Base;
use crate::locked;
use crate::origins::installer::Installers;
use crate::resolve::{Resolution, Resolved, resolve};
use crate::session::{Fetching, Needed, Session, SessionError};
use crate::sizes::{self, Parts};

/// How the list is made.
pub struct Request<'a> {
    /// Sizes that nobody here knows are asked of origins.
    pub ask: bool,
    /// What is built, where a lock is.
    pub locked: Option<&'a Lock>,
    /// Where the cache and the installers are.
    pub fetching: &'a Fetching,
    /// The most bytes of a volume.
    pub split: Option<u64>,
    /// Where the bundle would be written, and what it would be built on.
    pub target: &'a Path,
    pub hand_over: Option<&'a Path>,
    pub base: Option<&'a Base>,
}

/// What would go in.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DryRun<'n> {
    schema: &'static str,
    pub name: String,
    pub kubernetes: Option<String>,
    pub zone: String,
    pub items: Vec<Item>,
    pub platforms: Vec<OfPlatform>,
    pub total: Sum,
    pub charts: Vec<ChartImages>,
    /// What is asked for; what these need is not known before the repositories are read.
    pub packages: &'n [PackageNeed],
    /// Rules of cluster.yaml; a build is refused if an image is not signed as they demand, or if there are some and none names it.
    pub image_signatures: Vec<MustBeSigned<'n>>,
    pub warnings: &'n [String],
    pub notes: &'n [String],
    pub unverified: &'n [Doubt],
    pub verified: &'n [Checked],
    pub notices: &'n [Notice],
    /// What a build would be refused for, though the list can be made.
    pub missing: Vec<String>,
    /// Whether a lock says which packages there are.
    #[serde(skip)]
    pub is_locked: bool,
}

/// Who must have signed the images of some repositories.
#[derive(Debug, Serialize)]
pub struct MustBeSigned<'n> {
    /// As cluster.yaml names them; `*` is every other one.
    pub repositories: &'n [String],
    /// Keys and identities, of which one is enough; none where any image is carried without a check.
    pub by: Vec<String>,
}

/// One artifact for one platform.
#[derive(Debug, Serialize)]
pub struct Item {
    pub key: ArtifactKey,
    pub platform: Option<Platform>,
    pub version: String,
    /// Why its digest is, or will be, trusted.
    pub trust: String,
    pub because: String,
    pub optional: bool,
    /// In bytes, where it is known.
    pub size: Option<u64>,
    /// In the order in which they are asked; none of what is on this machine.
    pub sources: Vec<String>,
}

/// What is for one platform; for all where there is none.
#[derive(Debug, Serialize)]
pub struct OfPlatform {
    pub platform: Option<Platform>,
    #[serde(flatten)]
    pub sum: Sum,
}

/// Of a platform, or of all.
#[derive(Debug, Serialize)]
pub struct Sum {
    pub artifacts: usize,
    /// Of those whose size is known, shared blobs once.
    pub bytes: u64,
    /// Artifacts of unknown size.
    pub unknown: usize,
}

/// Lists what a build would carry. Without `ask`, nothing goes over the network.
pub fn dry_run<'n>(
    session: &Session,
    needed: &'n Needed,
    request: &Request<'_>,
    runtime: &Handle,
) -> Result<DryRun<'n>, SessionError> {
    let resolution = match request.locked {
        Some(lock) => locked::resolve(&needed.requirements, lock, &needed.catalogue, &needed.zone)?,
        None => resolve(&needed.requirements, &needed.zone),
    };
    crate::lock::check_paths(&resolution)?;
    let cache = session.cache_folder(request.fetching.cache.as_deref()).ok();
    let store = session.store_at_hand(request.fetching.cache.as_deref());
    let (installers, missing) = installers(&resolution, request, session)?;
    ahead::check(&Ahead {
        resolution: &resolution,
        lock: request.locked,
        base: request.base,
        split: request.split,
        target: request.target,
        hand_over: request.hand_over,
        cache: cache.as_deref(),
        store: store.as_ref(),
        installers: &installers,
    })?;
    let known = sizes::known(&resolution, request.locked, store.as_ref(), &installers);
    let parts = parts(&resolution, known, request, session, runtime)?;
    let charts = chart_images::known(session, needed, request.locked, request.fetching.cache.as_deref());
    let pairs = || resolution.items.iter().zip(&parts);
    let platforms = platforms(&resolution).into_iter().map(|platform| {
        let of_it = pairs().filter(|(item, _)| item.requirement.platform == platform).map(|(_, parts)| parts.as_ref());
        OfPlatform { platform, sum: sum(of_it) }
    });
    Ok(DryRun {
        schema: "kubexm.io/dry-run/v1",
        platforms: platforms.collect(),
        total: sum(parts.iter().map(Option::as_ref)),
        items: pairs().map(|(resolved, parts)| item(resolved, parts.as_ref(), request.locked)).collect(),
        name: resolution.name,
        kubernetes: resolution.kubernetes,
        zone: resolution.zone,
        charts: charts.into_iter().map(|(key, images)| ChartImages { key, images }).collect(),
        packages: &needed.requirements.packages,
        image_signatures: needed.cluster.bundle.image_signatures.iter().map(MustBeSigned::of).collect(),
        warnings: &needed.warnings,
        notes: &needed.notes,
        unverified: &needed.doubts,
        verified: &needed.verified,
        notices: &needed.notices,
        missing,
        is_locked: request.locked.is_some(),
    })
}

impl<'n> MustBeSigned<'n> {
    fn of(rule: &'n ImageSignatureRule) -> Self {
        let keys = rule.keys.iter().map(|key| format!("key {}", key.name));
        let identities = rule.identities.iter().map(|one| format!("{} ({})", one.subject, one.issuer));
        let by = match rule.accept {
            Acceptance::Signed => keys.chain(identities).collect(),
            Acceptance::Any => Vec::new(),
        };
        Self { repositories: &rule.repositories, by }
    }
}

/// For people.
impl std::fmt::Display for MustBeSigned<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |name: &String| if name == EVERY_OTHER { "every other repository".to_owned() } else { name.clone() };
        let repositories = self.repositories.iter().map(name).collect::<Vec<_>>().join(", ");
        match self.by.as_slice() {
            [] => write!(f, "images of {repositories} are carried whether they are signed or not"),
            [one] => write!(f, "images of {repositories} must be signed by {one}"),
            several => write!(f, "images of {repositories} must be signed by one of: {}", several.join(", ")),
        }
    }
}

/// Those that are found, and why others are not: a build would be refused without them.
fn installers(
    resolution: &Resolution,
    request: &Request<'_>,
    session: &Session,
) -> Result<(Installers, Vec<String>), SessionError> {
    let installers = session.installers(&request.fetching.installers)?;
    let wanted = resolution.items.iter().map(|item| &item.requirement);
    let wanted = wanted.filter(|needed| matches!(needed.source, Source::Installer));
    let missing = wanted.filter_map(|needed| installers.path(needed.platform.unwrap_or(Platform::LINUX_AMD64)).err());
    let missing = missing.map(|error| format!("a build would be refused: {error}")).collect();
    Ok((installers, missing))
}

fn parts(
    resolution: &Resolution,
    known: Vec<Option<Parts>>,
    request: &Request<'_>,
    session: &Session,
    runtime: &Handle,
) -> Result<Vec<Option<Parts>>, SessionError> {
    if !request.ask || known.iter().all(Option::is_some) {
        return Ok(known);
    }
    let origins = session.quick_origins(request.fetching)?;
    Ok(runtime.block_on(sizes::asked(resolution, known, &origins, request.fetching.jobs)))
}

/// In order; what serves all of them has none.
fn platforms(resolution: &Resolution) -> Vec<Option<Platform>> {
    let all: BTreeMap<Option<Platform>, ()> =
        resolution.items.iter().map(|item| (item.requirement.platform, ())).collect();
    all.into_keys().collect()
}

fn sum<'p>(parts: impl Iterator<Item = Option<&'p Parts>>) -> Sum {
    let all: Vec<Option<&Parts>> = parts.collect();
    let known: Vec<&Parts> = all.iter().copied().flatten().collect();
    Sum { artifacts: all.len(), bytes: sizes::total(known.iter().copied()), unknown: all.len() - known.len() }
}

fn item(resolved: &Resolved, parts: Option<&Parts>, lock: Option<&Lock>) -> Item {
    let Requirement { key, platform, version, trust, because, optional, .. } = &resolved.requirement;
    let locked = lock.and_then(|lock| lock.find(key, *platform));
    Item {
        key: key.clone(),
        platform: *platform,
        version: version.clone(),
        trust: locked.map_or(*trust, |item| item.trust).to_string(),
        because: because.clone(),
        optional: *optional,
        size: parts.map(sizes::bytes),
        sources: resolved.candidates.shown(),
    }
}

#[cfg(test)]
mod tests {
    use kubexm_spec::cluster::{SignedAs, SignerIdentity};

    use super::*;

    #[test]
    fn a_rule_names_repositories_and_everybody_whose_signature_is_enough() {
        let identity =
            |subject: &str| SignerIdentity { issuer: "https://accounts.test".to_owned(), subject: subject.to_owned() };
        let rule = |identities: Vec<SignerIdentity>, accept| ImageSignatureRule {
            repositories: vec!["registry.test/a".to_owned(), EVERY_OTHER.to_owned()],
            keys: Vec::new(),
            identities,
            trusted_root: None,
            accept,
            signed_as: SignedAs::Same,
        };
        let text = |rule: &ImageSignatureRule| MustBeSigned::of(rule).to_string();
        let of = "images of registry.test/a, every other repository";
        let one = rule(vec![identity("a@b.test")], Acceptance::Signed);
        assert_eq!(text(&one), format!("{of} must be signed by a@b.test (https://accounts.test)"));
        let two = rule(vec![identity("a@b.test"), identity("*@c.test")], Acceptance::Signed);
        let by = "a@b.test (https://accounts.test), *@c.test (https://accounts.test)";
        assert_eq!(text(&two), format!("{of} must be signed by one of: {by}"));
        assert_eq!(
            text(&rule(Vec::new(), Acceptance::Any)),
            format!("{of} are carried whether they are signed or not")
        );
    }
}
