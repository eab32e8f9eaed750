//! What says which artifacts are needed, and where they may come from: the same words for every verb that asks for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kubexm_builder::{credentials, images_list};
use kubexm_manifests::requirements::PackageNeed;
use kubexm_manifests::{Catalogue, Doubt, Requirements, Zone, doubts, require};
use kubexm_spec::cluster::{ExtraFile, ExtraImage};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ArtifactKey, Cluster, ExitCode, built};
use kubexm_terminal::{Display, Failure};

use super::input;
use super::zone::choice;

/// What the file is called when nobody calls it otherwise.
const CLUSTER_YAML: &str = "cluster.yaml";

/// cluster.yaml, the zone and the catalogue.
#[derive(Clone, Debug, clap::Args)]
pub struct What {
    /// cluster.yaml, - for standard input; without it, the defaults for --kubernetes
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Kubernetes version for a bundle from defaults (v1.34.4, or v1.34 for its newest known patch)
    #[arg(long, value_name = "VERSION", conflicts_with = "file")]
    pub kubernetes: Option<String>,
    /// Zone name (global, cn) or a zone file; comes before KMZONE and spec.bundle.zone
    #[arg(long, value_name = "NAME|FILE")]
    pub zone: Option<String>,
    /// Catalogue overlay with own versions, builds and digests; may be given several times
    #[arg(long, value_name = "FILE")]
    pub catalogue: Vec<PathBuf>,
    /// List of images beyond those of cluster.yaml, one a line with # comments; may be given several times
    #[arg(long, value_name = "FILE")]
    pub images_from: Vec<PathBuf>,
    /// Bundle this file of extraFiles although it holds a credential; may be given several times
    #[arg(long, value_name = "FILE")]
    pub allow_secret: Vec<PathBuf>,
}

/// What is needed, read and computed; nothing was fetched.
pub struct Needed {
    /// The bytes of cluster.yaml.
    pub cluster_yaml: String,
    /// Parsed from them, its paths made ready to be opened, with the images of lists.
    pub cluster: Cluster,
    /// With overlays.
    pub catalogue: Catalogue,
    /// The zone that holds.
    pub zone: Zone,
    /// What people should mend.
    pub warnings: Vec<String>,
    /// What people should know before anything is done.
    pub notes: Vec<String>,
    /// What it rests on that nobody has checked; told with warnings and notes.
    pub doubts: Vec<Doubt>,
    /// Everything, per platform.
    pub requirements: Requirements,
}

impl Needed {
    /// What charts are rendered for.
    pub fn work(&self) -> kubexm_builder::charts::Work<'_> {
        let Self { cluster, catalogue, requirements, zone, .. } = self;
        kubexm_builder::charts::Work { cluster, catalogue, requirements, zone }
    }
}

impl What {
    /// Reads the files and computes what is needed.
    pub fn read(&self) -> Result<Needed, Failure> {
        let (cluster_yaml, mut cluster) = input::cluster(self.file.as_deref(), self.kubernetes.as_deref())?;
        self.add_images(&mut cluster)?;
        self.check_credentials(&cluster)?;
        let catalogue = input::catalogue(&self.catalogue)?;
        let choice::Choice { zone, mut warnings, mut notes, .. } =
            choice::choose(self.zone.as_deref(), Some(&cluster))?;
        warnings.extend(self.unused_cluster_yaml());
        warnings.extend(built::check(&cluster).iter().map(|row| format!("kubexm-install refuses this cluster: {row}")));
        let requirements = require(&cluster, &catalogue).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
        self.something(&requirements)?;
        warnings.extend(idle_rules(&zone, &requirements));
        let doubts = doubts(&requirements, &catalogue);
        for doubt in &doubts {
            if doubt.is_grave() { &mut warnings } else { &mut notes }.push(format!("unverified: {doubt}"));
        }
        Ok(Needed { cluster_yaml, cluster, catalogue, zone, warnings, notes, doubts, requirements })
    }

    /// Files of this machine that would give a credential to everyone who has the bundle.
    fn check_credentials(&self, cluster: &Cluster) -> Result<(), Failure> {
        let extra = cluster.bundle.extra_files.iter().filter_map(|file| match file {
            ExtraFile::Path { path } => Some(path),
            ExtraFile::Url { .. } => None,
        });
        let scripts = cluster.system.pre_install.iter().chain(&cluster.system.post_install);
        let materials = scripts.flat_map(|script| &script.materials);
        let allowed = |path: &Path| {
            self.allow_secret.iter().any(|allowed| allowed == path || path.file_name() == Some(allowed.as_os_str()))
        };
        let files = extra.chain(materials).map(PathBuf::as_path).filter(|path| !allowed(path));
        let found = credentials::search(files);
        if found.is_empty() {
            return Ok(());
        }
        let lines = found.iter().map(|found| format!("\n- {} holds {}", found.path.display(), found.what));
        let text = format!(
            "credentials would be readable by everyone who has the bundle; leave these files out, or allow each with \
             --allow-secret FILE:{}",
            lines.collect::<String>()
        );
        Err(Failure::new(ExitCode::InlineSecret, text))
    }

    /// Who has a cluster.yaml here and does not name it may believe that it is read.
    fn unused_cluster_yaml(&self) -> Option<String> {
        let here = self.file.is_none() && Path::new(CLUSTER_YAML).is_file();
        here.then(|| match &self.kubernetes {
            None => format!(
                "{CLUSTER_YAML} in this folder is not read; give it with -f {CLUSTER_YAML}. This is for a cluster of defaults"
            ),
            Some(version) => format!("{CLUSTER_YAML} in this folder is not read: --kubernetes {version} is for a cluster of defaults"),
        })
    }

    /// A bundle of nothing is a slip: an empty `spec.bundle`, a list that a failed command wrote.
    fn something(&self, requirements: &Requirements) -> Result<(), Failure> {
        if !requirements.items.is_empty() || !requirements.packages.is_empty() {
            return Ok(());
        }
        let file = self.file.as_deref().unwrap_or(Path::new("cluster.yaml")).display();
        let text = format!(
            "{file}: there is nothing to bundle: give spec.kubernetes for a cluster, or something in spec.bundle (extraImages, \
             extraFiles, extraCharts), or images with --images-from"
        );
        Err(Failure::new(ExitCode::Config, text))
    }

    /// The files on this machine that are read.
    pub fn files(&self) -> Vec<PathBuf> {
        let named = self.file.iter().chain(&self.catalogue).chain(&self.images_from);
        named.cloned().chain(choice::file(self.zone.as_deref())).collect()
    }

    /// Images of lists count as `spec.bundle.extraImages`.
    fn add_images(&self, cluster: &mut Cluster) -> Result<(), Failure> {
        let images = &mut cluster.bundle.extra_images;
        let mut seen: BTreeSet<String> = images.iter().map(|image| image.name.clone()).collect();
        for path in &self.images_from {
            let names = images_list::parse(&input::read(path)?).map_err(|bad| {
                let lines: Vec<String> = bad.iter().map(|bad| format!("line {}: {}", bad.line, bad.problem)).collect();
                let text = format!("{} is no list of images:\n{}", path.display(), lines.join("\n"));
                Failure::new(ExitCode::Config, text)
            })?;
            if names.is_empty() {
                let text =
                    format!("{} names no image: give a list that does, or go without --images-from", path.display());
                return Err(Failure::new(ExitCode::Config, text));
            }
            for name in names {
                if seen.insert(name.clone()) {
                    images.push(ExtraImage { name, from: None });
                }
            }
        }
        Ok(())
    }
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
    Some(format!("zone {}: nothing that is needed is asked by {rules} for {names}{unless}", zone.name))
}

impl Needed {
    /// Warnings and notes, for people.
    pub fn tell(&self, display: &Display) {
        tell(&self.warnings, &self.notes, display);
    }
}

/// Warnings and notes, for people.
pub fn tell(warnings: &[String], notes: &[String], display: &Display) {
    for text in warnings {
        display.emit(EventKind::Warning { text: text.clone() });
    }
    for text in notes {
        display.emit(EventKind::Note { text: text.clone() });
    }
}
