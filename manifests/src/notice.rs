//! What upstream says of the chosen versions that people should hear before a cluster rests on them: they are not made for this
//! Kubernetes, or their line has ended. Nothing is chosen by it: two days never give two locks.

use std::fmt;

use kubexm_spec::Program;
use serde::Serialize;

use crate::catalogue::Catalogue;
use crate::feature::FeatureSet;
use crate::requirements::{Requirements, Versions};
use crate::version;

/// One thing to hear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// What kind of thing.
    pub kind: NoticeKind,
    /// `Kubernetes 1.33.13`, `cilium 1.18.5`.
    pub about: String,
    /// What upstream says, and which version to name instead.
    pub text: String,
}

/// Kinds of notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeKind {
    /// Upstream names other Kubernetes minors for it.
    OutOfRange,
    /// Upstream makes no more patches of its line.
    EndOfLife,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.text)
    }
}

/// What there is to hear of these requirements on a day (`2026-11-23`); Kubernetes first, then features and programs by name.
pub fn notices(requirements: &Requirements, catalogue: &Catalogue, today: &str) -> Vec<Notice> {
    let Some(versions) = &requirements.versions else { return Vec::new() };
    let minor = version::minor(&versions.kubernetes);
    let mut all: Vec<Notice> = kubernetes(versions, catalogue, today).into_iter().collect();
    for (name, feature) in &catalogue.features {
        let Some(version) = versions.features.get(name) else { continue };
        all.extend(out_of_range(feature, version, minor));
        let newer = |known: &&str| !ended(feature.end_of_life(known), today);
        let known = feature.versions.keys().map(String::as_str).filter(newer);
        all.extend(line_ended(name, version, feature.end_of_life(version), version::newest(known), today));
    }
    all.extend(containerd(versions, catalogue));
    for (name, component) in &catalogue.components {
        let Some(version) = versions.programs.get(name.as_str()) else { continue };
        let newer = |known: &&str| !ended(component.end_of_life(known), today);
        let known = component.versions.keys().map(String::as_str).filter(newer);
        all.extend(line_ended(name, version, component.end_of_life(version), version::newest(known), today));
    }
    all
}

fn ended(end: Option<&str>, today: &str) -> bool {
    end.is_some_and(|end| end <= today)
}

fn kubernetes(versions: &Versions, catalogue: &Catalogue, today: &str) -> Option<Notice> {
    let release = catalogue.release(&versions.kubernetes)?;
    let end = release.end_of_life.as_deref().filter(|end| ended(Some(end), today))?;
    let supported = catalogue.releases.values().filter(|other| !ended(other.end_of_life.as_deref(), today));
    let newest = version::newest(supported.map(|other| other.minor.as_str()));
    let instead = newest.map(|minor| format!("; the newest that this catalogue knows is {minor}")).unwrap_or_default();
    Some(Notice {
        kind: NoticeKind::EndOfLife,
        about: format!("Kubernetes {}", versions.kubernetes),
        text: format!("upstream ended {} on {end}{instead}", release.minor),
    })
}

fn out_of_range(feature: &FeatureSet, version: &str, minor: &str) -> Option<Notice> {
    let supports = feature.versions.get(version)?.supports.as_ref().filter(|minors| !minors.holds(minor))?;
    let instead = match feature.fit(minor) {
        Some(fit) => format!("; {fit} is for {minor}"),
        None => format!("; the catalogue knows none for {minor}"),
    };
    Some(Notice {
        kind: NoticeKind::OutOfRange,
        about: format!("{} {version}", feature.name),
        text: format!("upstream names Kubernetes {supports} for it, and this is {minor}{instead}"),
    })
}

fn containerd(versions: &Versions, catalogue: &Catalogue) -> Option<Notice> {
    let version = versions.of(Program::Containerd)?;
    let release = catalogue.release(&versions.kubernetes)?;
    if release.support.recommends_containerd(version) {
        return None;
    }
    let recommended = release.support.recommended_containerd.join(", ");
    Some(Notice {
        kind: NoticeKind::OutOfRange,
        about: format!("containerd {version}"),
        text: format!("for Kubernetes {} upstream recommends {recommended} and later of the same lines", release.minor),
    })
}

fn line_ended(name: &str, version: &str, end: Option<&str>, newest: Option<&str>, today: &str) -> Option<Notice> {
    let end = end.filter(|end| ended(Some(end), today))?;
    let instead = match newest.filter(|newest| version::compare(newest, version).is_gt()) {
        Some(newest) => format!("; {newest} has patches still"),
        None => "; the catalogue knows no line of it that has patches still".to_owned(),
    };
    Some(Notice {
        kind: NoticeKind::EndOfLife,
        about: format!("{name} {version}"),
        text: format!("upstream ended its line on {end}{instead}"),
    })
}
