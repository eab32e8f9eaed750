//! What is needed, computed from what a user hands in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kubexm_files::{MaterialError, MaterialRoom};
use kubexm_manifests::requirements::{ChartSource, PackageNeed, Source};
use kubexm_manifests::{Catalogue, Checked, Doubt, Notice, Requirements, Zone, checked, doubts, notices, require};
use kubexm_spec::cluster::{
    Acceptance, AddonKind, AddonSource, EVERY_OTHER, ExtraFile, ExtraImage, MaterialOf, rule_for,
};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ArtifactKey, Cluster, unsupported};

use super::{Choice, Session, SessionError, cluster};
use crate::{charts, credentials, image_signatures, images_list};

/// Which artifacts are wanted, and where they may come from.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// cluster.yaml; without it, the defaults for `kubernetes`.
    pub file: Option<PathBuf>,
    /// Kubernetes version of a bundle from defaults.
    pub kubernetes: Option<String>,
    /// Name or file of a zone.
    pub zone: Option<String>,
    /// Overlays of the catalogue, in order.
    pub catalogue: Vec<PathBuf>,
    /// Lists of images beyond those of cluster.yaml.
    pub images_from: Vec<PathBuf>,
    /// Files that go into the bundle although they hold a credential, by path or name.
    pub allow_secret: Vec<PathBuf>,
    /// The time by which ends of lines are reported, in seconds of Unix time; the session's clock when none. Nothing is chosen by it.
    pub source_date: Option<i64>,
}

/// What is needed; nothing was fetched.
pub struct Needed {
    /// The bytes of cluster.yaml.
    pub cluster_yaml: String,
    /// Parsed from them, its paths made ready to be opened, with the images of lists.
    pub cluster: Cluster,
    /// With overlays.
    pub catalogue: Catalogue,
    /// The zone that holds.
    pub zone: Zone,
    /// What people should fix.
    pub warnings: Vec<String>,
    /// What people should know before anything is done.
    pub notes: Vec<String>,
    /// Combinations that are not verified by an installation.
    pub doubts: Vec<Doubt>,
    /// What upstream says against the chosen versions on this day; warnings have it too.
    pub notices: Vec<Notice>,
    /// By what the rest was checked; notes have it too.
    pub verified: Vec<Checked>,
    /// Every artifact.
    pub requirements: Requirements,
}

impl Session {
    /// Reads all of a selection, and computes what it needs.
    pub fn needed(&self, selection: &Selection) -> Result<Needed, SessionError> {
        let (cluster_yaml, mut cluster) = self.cluster(selection.file.as_deref(), selection.kubernetes.as_deref())?;
        add_images(&mut cluster, &selection.images_from)?;
        check_credentials(&cluster, &selection.allow_secret)?;
        check_materials(&cluster)?;
        image_signatures::policy(&cluster)?;
        charts::check_values(&cluster)?;
        let catalogue = self.catalogue(&selection.catalogue)?;
        let Choice { zone, mut warnings, mut notes, .. } = self.zone(selection.zone.as_deref(), Some(&cluster))?;
        warnings.extend(
            unsupported::check(&cluster).iter().map(|row| format!("kubexm-install refuses this cluster: {row}")),
        );
        let requirements = require(&cluster, &catalogue)?;
        if requirements.items.is_empty() && requirements.packages.is_empty() {
            let file = selection.file.as_deref().unwrap_or(Path::new("cluster.yaml")).to_owned();
            return Err(SessionError::Nothing { file });
        }
        warnings.extend(idle_rules(&zone, &requirements));
        warnings.extend(idle_signers(&cluster, &requirements));
        let doubts = doubts(&requirements, &catalogue);
        for doubt in &doubts {
            if doubt.is_severe() { &mut warnings } else { &mut notes }.push(format!("unverified: {doubt}"));
        }
        let today = self.today(selection.source_date);
        let notices = notices(&requirements, &catalogue, &today);
        warnings.extend(notices.iter().map(ToString::to_string));
        let verified = checked(&requirements, &catalogue);
        notes.extend(verified.iter().map(|checked| format!("verified: {checked}")));
        Ok(Needed { cluster_yaml, cluster, catalogue, zone, warnings, notes, doubts, notices, verified, requirements })
    }

    /// The files on this machine that a selection reads.
    pub fn inputs(&self, selection: &Selection) -> Vec<PathBuf> {
        let named = selection.file.iter().chain(&selection.catalogue).chain(&selection.images_from);
        named.cloned().chain(self.zone_file(selection.zone.as_deref())).collect()
    }

    /// Reports warnings and notes.
    pub fn advise(&self, warnings: &[String], notes: &[String]) {
        for text in warnings {
            self.report(EventKind::Warning { text: text.clone() });
        }
        for text in notes {
            self.report(EventKind::Note { text: text.clone() });
        }
    }
}

impl Needed {
    /// The files and folders on this machine that the cluster.yaml names.
    pub fn files(&self) -> Vec<PathBuf> {
        let items = self.requirements.items.iter().filter_map(|item| match &item.source {
            Source::LocalFile { path } | Source::LocalYaml { path } => Some(path.clone()),
            Source::Chart { chart: ChartSource::Path { path } } => Some(path.clone()),
            Source::LocalImage { layout, .. } => Some(layout.clone()),
            Source::File { .. } | Source::Image { .. } | Source::Chart { .. } | Source::Installer => None,
        });
        let materials = self.cluster.materials().into_iter().map(|material| material.file.path.clone());
        let values = kubexm_manifests::chart::releases(&self.cluster).into_iter().filter_map(|chart| chart.values_file);
        items.chain(materials).chain(values).collect()
    }

    /// For renderings of charts.
    pub fn work(&self) -> charts::Work<'_> {
        let Self { cluster, catalogue, requirements, zone, .. } = self;
        charts::Work { cluster, catalogue, requirements, zone }
    }
}

/// Images of lists count as `spec.bundle.extraImages`.
fn add_images(cluster: &mut Cluster, lists: &[PathBuf]) -> Result<(), SessionError> {
    let images = &mut cluster.bundle.extra_images;
    let mut seen: BTreeSet<String> = images.iter().map(|image| image.name.clone()).collect();
    for path in lists {
        let names = images_list::parse(&cluster::read(path)?)
            .map_err(|bad| SessionError::ImageList { path: path.clone(), bad })?;
        if names.is_empty() {
            return Err(SessionError::EmptyImageList { path: path.clone() });
        }
        for name in names {
            if seen.insert(name.clone()) {
                images.push(ExtraImage { name, from: None });
            }
        }
    }
    Ok(())
}

/// Files of this machine that would give a credential to everyone who has the bundle: extra files, objects and values of add-ons.
fn check_credentials(cluster: &Cluster, allow: &[PathBuf]) -> Result<(), SessionError> {
    let extra = cluster.bundle.extra_files.iter().filter_map(|file| match file {
        ExtraFile::Path { path } => Some(path.clone()),
        ExtraFile::Url { .. } => None,
    });
    let addons = cluster.addons.iter().chain(&cluster.bundle.extra_charts);
    let addons = addons.flat_map(|addon| {
        let objects = match &addon.source {
            AddonSource::Path { path } if addon.kind == AddonKind::Yaml => in_folder(path),
            _ => Vec::new(),
        };
        objects.into_iter().chain(addon.values_file.clone())
    });
    let allowed =
        |path: &Path| allow.iter().any(|allowed| allowed == path || path.file_name() == Some(allowed.as_os_str()));
    let files: Vec<PathBuf> = extra.chain(addons).filter(|path| !allowed(path)).collect();
    let found = credentials::search(files.iter().map(PathBuf::as_path));
    if found.is_empty() { Ok(()) } else { Err(SessionError::Credentials { found }) }
}

/// A file, or those of a folder; one that cannot be read is reported when it is needed.
fn in_folder(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return vec![path.to_owned()] };
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Texts that cluster.yaml names, all that is wrong with them at once.
fn check_materials(cluster: &Cluster) -> Result<(), SessionError> {
    let (mut room, mut seen) = (MaterialRoom::default(), BTreeSet::new());
    let mut checked = |material: &MaterialOf<'_>| {
        let text = kubexm_files::read_material(material)?;
        // Whoever installs keeps each name once.
        let is_new = seen.insert(material.file.name.clone());
        if is_new { room.take(material, &material.file.path, &text) } else { Ok(()) }
    };
    let wrong: Vec<MaterialError> = cluster.materials().iter().filter_map(|material| checked(material).err()).collect();
    if wrong.is_empty() { Ok(()) } else { Err(SessionError::Materials(wrong)) }
}

/// Names of repositories whose images must be signed, and which decide about no image: mistyped, they would leave an image to another
/// rule.
fn idle_signers(cluster: &Cluster, requirements: &Requirements) -> Option<String> {
    let rules = &cluster.bundle.image_signatures;
    let references = requirements.items.iter().filter_map(|item| match &item.source {
        Source::Image { reference, .. } => Some(reference.as_str()),
        _ => None,
    });
    let used: BTreeSet<&str> =
        references.filter_map(|reference| rule_for(rules, reference)).map(|(_, name)| name).collect();
    let demanding = rules.iter().filter(|rule| rule.accept != Acceptance::Any);
    let names = demanding.flat_map(|rule| &rule.repositories).map(String::as_str);
    let idle: Vec<&str> = names.filter(|name| *name != EVERY_OTHER && !used.contains(name)).collect();
    let charts = requirements.items.iter().any(|item| matches!(item.key, ArtifactKey::Chart(_) | ArtifactKey::Yaml(_)));
    let unless = if charts { ", unless it is what charts name" } else { "" };
    (!idle.is_empty())
        .then(|| format!("spec.bundle.imageSignatures: no image of this cluster is of {}{unless}", idle.join(", ")))
}

/// Rules of a zone file that nothing needs: most often a mistyped host. (A built-in zone is for everybody.)
fn idle_rules(zone: &Zone, requirements: &Requirements) -> Option<String> {
    if Zone::builtin(&zone.name).is_some_and(|builtin| builtin == *zone) {
        return None;
    }
    let packages = requirements.packages.iter().flat_map(PackageNeed::addresses);
    let items = requirements.items.iter().flat_map(|item| item.source.addresses());
    let addresses: Vec<String> = items.chain(packages).collect();
    let idle = zone.idle(addresses.iter().map(String::as_str));
    let names: Vec<&str> = idle.iter().map(|rule| rule.matches.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    let charts = requirements.items.iter().any(|item| matches!(item.key, ArtifactKey::Chart(_) | ArtifactKey::Yaml(_)));
    let unless = if charts { ", unless it is what charts name" } else { "" };
    let (rules, names) = (if names.len() == 1 { "the rule" } else { "the rules" }, names.join(", "));
    Some(format!("zone {}: nothing that is needed is fetched through {rules} for {names}{unless}", zone.name))
}
