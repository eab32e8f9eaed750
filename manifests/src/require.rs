//! `require`: the one pure function from a cluster and a catalogue to everything the cluster needs.

use std::collections::BTreeMap;

use kubexm_spec::cluster::{ExtraFile, ExtraImage, Kubernetes};
use kubexm_spec::yaml::nearest;
use kubexm_spec::{ArtifactKey, Cluster, Platform, Program, Trust};

use crate::catalogue::Catalogue;
use crate::component::Component;
use crate::error::RequireError;
use crate::requirements::{Requirement, Requirements, Source, Versions};
use crate::versions::{choose, known_version};

/// The installer goes first: it is what reads the rest.
const INSTALLER_STAGE: u8 = 0;
/// What users add comes last.
const EXTRA_STAGE: u8 = 6;

/// Every artifact of a cluster, per platform. A bundle of extras only (`kubernetes: None`) needs nothing but its extras.
pub fn require(cluster: &Cluster, catalogue: &Catalogue) -> Result<Requirements, RequireError> {
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
    items.sort_by(|a, b| (&a.key, a.platform).cmp(&(&b.key, b.platform)));
    items.dedup_by(|a, b| a.key == b.key && a.platform == b.platform);
    Ok(Requirements { name: cluster.name.clone(), versions, items })
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
    let versions = choose(cluster, kubernetes, catalogue)?;
    let reason = format!("Kubernetes {}", versions.kubernetes);
    for program in Program::ALL {
        let Some(version) = versions.of(program) else { continue };
        let component = catalogue.component(program).ok_or_else(|| RequireError::Gap {
            what: format!("component {}", program.name()),
            kubernetes: versions.kubernetes.clone(),
        })?;
        known_version(component, version)?;
        for platform in platforms {
            items.push(program_item(program, component, version, *platform, &reason)?);
        }
    }
    for platform in platforms {
        items.extend(image_items(&versions, catalogue, *platform)?);
        items.push(Requirement {
            key: ArtifactKey::Installer,
            platform: Some(*platform),
            version: String::new(),
            because: format!("the agent of {platform} hosts"),
            optional: false,
            stage: INSTALLER_STAGE,
            trust: Trust::SelfBuilt,
            source: Source::Installer,
        });
    }
    Ok(versions)
}

fn program_item(
    program: Program,
    component: &Component,
    version: &str,
    platform: Platform,
    reason: &str,
) -> Result<Requirement, RequireError> {
    let pin = component.pin(version, platform.arch);
    let checksum_url = component.checksum_url(version, platform.arch);
    if pin.is_none() && checksum_url.is_none() {
        return Err(RequireError::NoDigest {
            component: component.name.clone(),
            version: version.to_owned(),
            platform,
        });
    }
    Ok(Requirement {
        key: ArtifactKey::Binary(program),
        platform: Some(platform),
        version: version.to_owned(),
        because: if component.optional {
            "a tool; spec.bundle.exclude leaves it out".to_owned()
        } else {
            reason.to_owned()
        },
        optional: component.optional,
        stage: component.stage,
        trust: pin.map_or(Trust::UpstreamChecksum, |pin| pin.trust),
        source: Source::File {
            file_name: component.file_name(version, platform.arch),
            url: component.url(version, platform.arch),
            sha256: pin.map(|pin| pin.sha256),
            size: pin.and_then(|pin| pin.size),
            checksum_url,
        },
    })
}

fn image_items(
    versions: &Versions,
    catalogue: &Catalogue,
    platform: Platform,
) -> Result<Vec<Requirement>, RequireError> {
    let gap = |what: String| RequireError::Gap { what, kubernetes: versions.kubernetes.clone() };
    let mut items = Vec::new();
    for rule in &catalogue.images {
        let image = rule.image().ok_or_else(|| gap(format!("image {:?} that this program knows", rule.name)))?;
        let tag = versions.tag(image);
        let reference = format!("{}:{tag}", rule.repository);
        let pin = catalogue.pins.get(&reference);
        items.push(Requirement {
            key: ArtifactKey::Image(image),
            platform: Some(platform),
            version: tag,
            because: match rule.feature {
                crate::image::Feature::Kubeadm => format!("kubeadm {} runs it", versions.kubernetes),
                crate::image::Feature::Flannel => "spec.network.plugin flannel".to_owned(),
            },
            optional: false,
            stage: rule.stage,
            trust: pin.map_or(Trust::OciDigest, |pin| pin.trust),
            source: Source::Image { reference, digest: pin.map(|pin| pin.digest) },
        });
    }
    // an image of the closed set without a rule would be missed only on the node
    for image in kubexm_spec::ClusterImage::ALL {
        if !items.iter().any(|item| item.key == ArtifactKey::Image(image)) {
            return Err(gap(format!("image {}", image.name())));
        }
    }
    Ok(items)
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
            optional: false,
            stage: EXTRA_STAGE,
            trust,
            source,
        });
    }
    Ok(items)
}

fn extra_file(file: &ExtraFile) -> Result<(String, Trust, Source), RequireError> {
    match file {
        ExtraFile::Url { url, sha256 } => {
            let path = url.split(['?', '#']).next().unwrap_or(url);
            let after_scheme = path.split_once("://").map_or(path, |(_, rest)| rest);
            let name = after_scheme.split_once('/').and_then(|(_, rest)| rest.rsplit('/').next()).unwrap_or("");
            if matches!(name, "" | "." | "..") {
                return Err(RequireError::NoFileName { address: url.clone() });
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
