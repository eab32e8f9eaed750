//! `require`: the one pure function from a cluster and a catalogue to everything the cluster needs.

use std::collections::BTreeMap;

use kubexm_spec::cluster::{ExtraFile, ExtraImage, Kubernetes, MaterialOf, MaterialUse};
use kubexm_spec::yaml::nearest;
use kubexm_spec::{ArtifactKey, Cluster, Platform, Program, Trust};

use crate::addons;
use crate::catalogue::Catalogue;
use crate::chart;
use crate::component::{Component, NodeRole};
use crate::error::RequireError;
use crate::feature_gates;
use crate::glibc_of_os;
use crate::needs::Need;
use crate::os::Profiles;
use crate::packages;
use crate::require_features::{self, Image};
use crate::requirements::{Requirement, Requirements, Source, Versions};
use crate::versions::choose;

/// The installer goes first: it is what reads the rest.
const INSTALLER_STAGE: u8 = 0;
/// Packages come before all that needs their programs.
pub const PACKAGE_STAGE: u8 = 1;
/// What users add comes last.
const EXTRA_STAGE: u8 = 6;
/// The longest name of a file that file systems take, in bytes.
const FILE_NAME: usize = 255;

/// Every artifact of a cluster, per platform. A bundle of extras only (`kubernetes: None`) needs nothing but its extras.
/// Settings with which the chosen version of Kubernetes would not start are refused.
pub fn require(cluster: &Cluster, catalogue: &Catalogue) -> Result<Requirements, RequireError> {
    let requirements = require_of_bundle(cluster, catalogue)?;
    if let (Some(kubernetes), Some(versions)) = (&cluster.kubernetes, &requirements.versions) {
        feature_gates::check(kubernetes, &versions.kubernetes)?;
    }
    Ok(requirements)
}

/// The same for the cluster of a bundle that is there already: an earlier program may have built it with settings that
/// [`require`] refuses, and whoever reads it wants to know what it has.
pub fn require_of_bundle(cluster: &Cluster, catalogue: &Catalogue) -> Result<Requirements, RequireError> {
    let mut platforms = cluster.bundle.platforms.clone();
    platforms.sort();
    platforms.dedup();
    check_exclude(cluster, catalogue)?;
    let mut items = Vec::new();
    let versions = match &cluster.kubernetes {
        Some(kubernetes) => Some(cluster_items(cluster, kubernetes, catalogue, &platforms, &mut items)?),
        None => None,
    };
    for image in &cluster.bundle.extra_images {
        items.extend(platforms.iter().map(|platform| extra_image(image, catalogue, *platform)));
    }
    items.extend(extra_files(&cluster.bundle.extra_files)?);
    items.extend(cluster.materials().into_iter().map(material));
    addons::check(cluster, catalogue)?;
    items.extend(chart::of_users(cluster));
    items.sort_by(|a, b| (&a.key, a.platform).cmp(&(&b.key, b.platform)));
    items.dedup_by(|a, b| a.key == b.key && a.platform == b.platform);
    let packages = packages::needs(cluster, Profiles::embedded())?;
    glibc_of_os::check(cluster, catalogue, versions.as_ref(), Profiles::embedded())?;
    Ok(Requirements { name: cluster.name.clone(), versions, items, packages })
}

fn check_exclude(cluster: &Cluster, catalogue: &Catalogue) -> Result<(), RequireError> {
    let optional: Vec<&str> = catalogue.components.values().filter(|c| c.optional).map(|c| c.name.as_str()).collect();
    // a bundle's own catalogue lacks the tools that were excluded: every program's name is known to this program anyway
    let named = |name: &str| Program::ALL.iter().any(|p| p.name() == name && catalogue.component(*p).is_none());
    match cluster.bundle.exclude.iter().find(|name| !optional.contains(&name.as_str()) && !named(name)) {
        None => Ok(()),
        Some(name) => Err(RequireError::Exclude {
            name: name.clone(),
            known: nearest(name, optional).into_iter().map(str::to_owned).collect(),
        }),
    }
}

/// The items of the cluster's own line; gives the versions chosen.
fn cluster_items(
    cluster: &Cluster,
    kubernetes: &Kubernetes,
    catalogue: &Catalogue,
    platforms: &[Platform],
    items: &mut Vec<Requirement>,
) -> Result<Versions, RequireError> {
    let chosen = choose(cluster, kubernetes, catalogue)?;
    let versions = &chosen.versions;
    for (program, component, need) in &chosen.programs {
        let Some(version) = versions.of(*program) else { continue };
        for platform in platforms {
            items.push(program_item(*program, component, version, *platform, need)?);
        }
    }
    for (image, because) in &chosen.images {
        let rule = catalogue.images.iter().find(|rule| rule.name == image.name());
        let (Some(rule), Some(tag)) = (rule, versions.tag(*image)) else { continue };
        let repository = rule.repository(chosen.constants);
        let found = Image { key: ArtifactKey::Image(*image), repository: &repository, tag, role: rule.role };
        items.extend(platforms.iter().map(|platform| found.item(catalogue, *platform, because, rule.stage)));
    }
    items.extend(require_features::items(&chosen.features, versions, catalogue, platforms));
    items.extend(platforms.iter().map(|platform| Requirement {
        key: ArtifactKey::Installer,
        platform: Some(*platform),
        version: String::new(),
        because: format!("the agent of {platform} hosts"),
        role: Some(NodeRole::All),
        optional: false,
        stage: INSTALLER_STAGE,
        trust: Trust::SelfBuilt,
        source: Source::Installer,
    }));
    Ok(chosen.versions)
}

fn program_item(
    program: Program,
    component: &Component,
    version: &str,
    platform: Platform,
    need: &Need,
) -> Result<Requirement, RequireError> {
    let at = || (component.name.clone(), version.to_owned(), platform);
    let Some(url) = component.published_url(version, platform.arch) else {
        let (component, version, platform) = at();
        return Err(RequireError::NoOrigin { component, version, platform });
    };
    let pin = component.pin(version, platform.arch);
    let checksum_url = component.checksum_url(version, platform.arch);
    if pin.is_none() && checksum_url.is_none() {
        let (component, version, platform) = at();
        return Err(RequireError::NoDigest { component, version, platform });
    }
    Ok(Requirement {
        key: ArtifactKey::Binary(program),
        platform: Some(platform),
        version: version.to_owned(),
        because: need.because.clone(),
        role: Some(need.role.unwrap_or(component.role)),
        optional: component.optional && !need.required,
        stage: component.stage,
        trust: pin.map_or(Trust::UpstreamChecksum, |pin| pin.trust),
        source: Source::File {
            file_name: component.file_name(version, platform.arch),
            url,
            sha256: pin.map(|pin| pin.sha256),
            size: pin.and_then(|pin| pin.size),
            checksum_url,
        },
    })
}

fn extra_image(image: &ExtraImage, catalogue: &Catalogue, platform: Platform) -> Requirement {
    let by_name = image.name.split_once('@').and_then(|(_, digest)| digest.parse().ok());
    let pin = catalogue.pins.get(&image.name);
    let (trust, source) = match &image.from {
        Some(layout) => (Trust::User, Source::LocalImage { reference: image.name.clone(), layout: layout.clone() }),
        None => {
            let trust = match (by_name, pin) {
                (Some(_), _) => Trust::User,
                (None, Some(pin)) => pin.trust,
                (None, None) => Trust::OciDigest,
            };
            let digest = by_name.or(pin.map(|pin| pin.digest));
            (trust, Source::Image { reference: image.name.clone(), digest })
        }
    };
    Requirement {
        key: ArtifactKey::ExtraImage(image.name.clone()),
        platform: Some(platform),
        version: tag_of(&image.name).to_owned(),
        because: "spec.bundle.extraImages".to_owned(),
        role: None,
        optional: false,
        stage: EXTRA_STAGE,
        trust,
        source,
    }
}

/// The tag of a reference, or its digest where it has no tag.
fn tag_of(reference: &str) -> &str {
    let (name, digest) = reference.split_once('@').map_or((reference, ""), |(name, digest)| (name, digest));
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split_once(':').map_or(digest, |(_, tag)| tag)
}

fn extra_files(files: &[ExtraFile]) -> Result<Vec<Requirement>, RequireError> {
    let mut by_name: BTreeMap<String, &ExtraFile> = BTreeMap::new();
    let mut items = Vec::new();
    for file in files {
        let (name, trust, source) = extra_file(file)?;
        if let Some(known) = by_name.insert(name.clone(), file) {
            if known != file {
                return Err(RequireError::SameFileName { name });
            }
            continue;
        }
        items.push(Requirement {
            key: ArtifactKey::ExtraFile(name),
            platform: None,
            version: String::new(),
            because: "spec.bundle.extraFiles".to_owned(),
            role: None,
            optional: false,
            stage: EXTRA_STAGE,
            trust,
            source,
        });
    }
    Ok(items)
}

fn material(material: MaterialOf<'_>) -> Requirement {
    let MaterialOf { field, usage, file } = material;
    let role = match usage {
        MaterialUse::AuditPolicy | MaterialUse::Authority | MaterialUse::Certificates => Some(NodeRole::ControlPlane),
        MaterialUse::Script => Some(NodeRole::All),
        // Whoever verifies the bundle reads them, and no host.
        MaterialUse::PublicKey | MaterialUse::TrustedRoot => None,
    };
    Requirement {
        key: ArtifactKey::Material(file.name.clone()),
        platform: None,
        version: String::new(),
        because: field,
        role,
        optional: false,
        stage: EXTRA_STAGE,
        trust: Trust::User,
        source: Source::LocalFile { path: file.path.clone() },
    }
}

fn extra_file(file: &ExtraFile) -> Result<(String, Trust, Source), RequireError> {
    match file {
        ExtraFile::Url { url, sha256 } => {
            let path = url.split(['?', '#']).next().unwrap_or(url);
            let after_scheme = path.split_once("://").map_or(path, |(_, rest)| rest);
            let name = after_scheme.split_once('/').and_then(|(_, rest)| rest.rsplit('/').next()).unwrap_or("");
            if matches!(name, "" | "." | "..") {
                // Its query may be a key.
                return Err(RequireError::NoFileName { address: path.to_owned() });
            }
            if name.len() > FILE_NAME {
                let (address, length) = (path[..path.len() - name.len()].to_owned(), name.len());
                return Err(RequireError::LongFileName { address, length });
            }
            let source = Source::File {
                file_name: name.to_owned(),
                url: url.clone(),
                sha256: Some(*sha256),
                size: None,
                checksum_url: None,
            };
            Ok((name.to_owned(), Trust::User, source))
        }
        ExtraFile::Path { path } => {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .ok_or_else(|| RequireError::NoFileName { address: path.display().to_string() })?;
            Ok((name.to_owned(), Trust::User, Source::LocalFile { path: path.clone() }))
        }
    }
}
