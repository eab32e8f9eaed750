//! Upstream's warnings about the chosen versions: they are not made for this
//! Kubernetes, or their line has ended. They never influence a choice, so the day never changes a lock.

use std::fmt;

use kubexm_spec::Program;
use serde::Serialize;

use crate::catalogue::Catalogue;
use crate::feature::{FeatureSet, FeatureVersion};
use crate::release::Support;
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
    /// Upstream's statement, and which version to name instead.
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
    let minor = &versions.kubernetes.line();
    let mut all: Vec<Notice> = kubernetes(versions, catalogue, today).into_iter().collect();
    for (name, feature) in &catalogue.features {
        let Some(version) = versions.features.get(name) else { continue };
        all.extend(out_of_range(feature, version, minor));
        let fits = |known: &FeatureVersion| known.supports.as_ref().is_none_or(|minors| minors.holds(minor));
        let fit = feature.versions.iter().filter(|(_, known)| fits(known));
        let fit = fit.map(|(known, _)| (known.as_str(), feature.end_of_life(known)));
        all.extend(line_ended(name, (version, feature.end_of_life(version)), fit, minor, today));
    }
    all.extend(containerd(versions, catalogue));
    let support = catalogue.support(versions.kubernetes.bare());
    for (name, component) in &catalogue.components {
        let Some(version) = versions.programs.get(name.as_str()) else { continue };
        let fits = |known: &&String| support.is_none_or(|support| runs_with(name, known, support));
        let fit = component.versions.keys().filter(fits);
        let fit = fit.map(|known| (known.as_str(), component.end_of_life(known)));
        all.extend(line_ended(name, (version, component.end_of_life(version)), fit, minor, today));
    }
    all
}

/// Whether a minor runs with a version of a program, as far as the catalogue says.
fn runs_with(name: &str, version: &str, support: &Support) -> bool {
    let from = |oldest: &str| version::compare(version, oldest).is_ge();
    if name == Program::Containerd.name() {
        return from(&support.minimum_containerd) && support.recommends_containerd(version);
    }
    name != Program::Etcd.name() || support.minimum_etcd.as_deref().is_none_or(from)
}

fn ended(end: Option<&str>, today: &str) -> bool {
    end.is_some_and(|end| end <= today)
}

fn kubernetes(versions: &Versions, catalogue: &Catalogue, today: &str) -> Option<Notice> {
    let release = catalogue.release(versions.kubernetes.bare())?;
    let end = release.end_of_life.as_deref().filter(|end| ended(Some(end), today))?;
    let supported = catalogue.releases.values().filter(|other| !ended(other.end_of_life.as_deref(), today));
    let newest = version::newest(supported.map(|other| other.minor.as_str()));
    let instead = newest.map(|minor| format!("; the newest that this catalogue knows is {minor}")).unwrap_or_default();
    Some(Notice {
        kind: NoticeKind::EndOfLife,
        about: format!("Kubernetes {}", versions.kubernetes.bare()),
        text: format!("upstream ended {} on {end}{instead}", release.minor),
    })
}

fn out_of_range(feature: &FeatureSet, version: &str, minor: &str) -> Option<Notice> {
    let supports = feature.versions.get(version)?.supports.as_ref().filter(|minors| !minors.holds(minor))?;
    // That which is chosen where none is named, if it is one of them.
    let fits = |version: &String| {
        feature.versions.get(version).is_some_and(|known| known.supports.as_ref().is_some_and(|s| s.holds(minor)))
    };
    let default = feature.choose(None, minor).ok().filter(fits);
    let instead = match default.as_deref().or_else(|| feature.fit(minor)) {
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
    let release = catalogue.release(versions.kubernetes.bare())?;
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

/// `fit`: the versions that run with the Kubernetes minor, each with the end of its line.
fn line_ended<'c>(
    name: &str,
    (version, end): (&str, Option<&str>),
    fit: impl Iterator<Item = (&'c str, Option<&'c str>)>,
    minor: &str,
    today: &str,
) -> Option<Notice> {
    let end = end.filter(|end| ended(Some(end), today))?;
    let newer = fit.filter(|(known, end)| version::compare(known, version).is_gt() && !ended(*end, today));
    let (supported, unknown): (Vec<_>, Vec<_>) = newer.partition(|(_, end)| end.is_some());
    let newest = |all: &[(&'c str, Option<&str>)]| version::newest(all.iter().map(|(known, _)| *known));
    let instead = match (newest(&supported), newest(&unknown)) {
        (Some(newest), _) => format!("; {newest} has patches still"),
        (None, Some(newest)) => format!("; {newest} is newer, and its end is not known"),
        (None, None) => format!("; the catalogue has no line of it for {minor} that has patches still"),
    };
    Some(Notice {
        kind: NoticeKind::EndOfLife,
        about: format!("{name} {version}"),
        text: format!("upstream ended its line on {end}{instead}"),
    })
}
