//! A bundle that was opened, with the cluster it is to become; and the same when every byte of it was read.

use std::collections::BTreeMap;

use kubexm_archive::{Bundle, DOCUMENT_LIMIT};
use kubexm_engine::Belongs;
use kubexm_engine::events::event;
use kubexm_manifests::Catalogue;
use kubexm_plan::{Facts, Vouched};
use kubexm_recipes::packages::CarriedPackages;
use kubexm_recipes::{PlanCx, RecipeError, bundle, config, unsupported};
use kubexm_spec::Cluster;
use kubexm_spec::event::EventKind;

use super::cluster_file::ClusterFile;
use super::materials::ReadMaterials;
use super::trust::Provenance;
use super::verified::VerifiedFiles;
use super::{installed, lock, replace};
use crate::error::SessionError;
use crate::escaped::escaped;
use crate::events;
use crate::home::ClusterHome;
use crate::options::{BundleOptions, ReplaceOptions};
use crate::session::Session;

/// Bundle, cluster and catalogue. Made by [`Session::open`] alone.
#[derive(Debug)]
pub struct Opened {
    /// Structure holds; blobs are checked where they are used.
    pub(super) bundle: Bundle,
    pub(super) provenance: Provenance,
    pub(super) cluster: ClusterFile,
    /// The bundle's own.
    pub(super) catalogue: Catalogue,
    /// The packages in its lock, before any of them is read.
    pub(super) packages: CarriedPackages,
    /// Texts that cluster.yaml names.
    pub(super) materials: ReadMaterials,
    pub(super) set_aside: bool,
    /// What it may take the place of.
    pub(super) replace: ReplaceOptions,
}

/// An opened bundle of which every byte was read and found right, now or before. Made by [`Opened::verify`] alone.
#[derive(Debug)]
pub struct Verified(Opened);

impl Session<'_> {
    /// Opens a bundle, checks its signers before anything else in it is trusted, and reads its documents.
    ///
    /// # Errors
    /// It is no bundle, is not signed as is demanded, or its documents cannot be used.
    pub fn open(&self, options: &BundleOptions) -> Result<Opened, SessionError> {
        events::phase(self.events, "bundle");
        let bundle = Bundle::open_all(&options.bundle)?;
        let provenance = options.trust.judge(&bundle, self.home)?;
        // Nothing of it is trusted yet: on one line its name can pass for no other.
        let about = format!("{}: {}; {}", bundle.manifest().name, about(&bundle), provenance.trust());
        events::note(self.events, escaped(&about));
        // What is missing is reported now, before anything is changed. The manifest of the delta, which is what is signed, has the
        // digests of what the bases give.
        let bases = options.bases.iter().map(|base| Bundle::open(base)).collect::<Result<_, _>>()?;
        let bundle = bundle.on_bases(bases)?;
        let catalogue = Catalogue::from_json(&bundle.read("catalogue.json", DOCUMENT_LIMIT)?)?;
        let cluster = match &options.file {
            Some(path) => ClusterFile::of_operator(path)?,
            None => ClusterFile::of_bundle(&bundle, &provenance)?,
        };
        let packages = lock::packages(&bundle)?;
        let materials = ReadMaterials::read(&cluster, options.file.as_deref(), &bundle);
        let replace = options.replace;
        Ok(Opened { bundle, provenance, cluster, catalogue, packages, materials, set_aside: false, replace })
    }
}

impl Opened {
    /// Reads every byte of the bundle and follows every reference, unless these very files were read before.
    ///
    /// # Errors
    /// Content does not match the manifest, or something that is named is missing.
    pub fn verify(self, session: &Session<'_>) -> Result<Verified, SessionError> {
        events::phase(session.events, "verify");
        let files = VerifiedFiles::look(&self.bundle)?;
        if files.is_noted(&session.home.verified()) {
            events::note(session.events, "this file was verified before and has not changed since");
            return Ok(Verified(self));
        }
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let progress = |done, total| {
            let (what, unit) = ("verify".to_owned(), "bytes".to_owned());
            session.events.emit(event(EventKind::Progress { what, done, total: Some(total), unit }));
        };
        for file in std::iter::once(&self.bundle).chain(self.bundle.bases()) {
            kubexm_archive::verify(file, threads, &progress)
                .map_err(|report| SessionError::Damaged(Box::new(report)))?;
        }
        kubexm_archive::check_references(&self.bundle).map_err(|error| SessionError::Incomplete(Box::new(error)))?;
        events::note(session.events, "every byte is right, and everything that is named inside is there");
        files.keep(&session.home.verified())?;
        Ok(Verified(self))
    }

    /// Its bytes.
    pub const fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Who vouches for it.
    pub const fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// The bundle's own cluster.yaml, or the one that was given.
    pub const fn cluster(&self) -> &ClusterFile {
        &self.cluster
    }

    /// Texts that its cluster.yaml names.
    pub(crate) const fn materials(&self) -> &ReadMaterials {
        &self.materials
    }

    /// Whether a recipe installs everything that the cluster says, the bundle has everything it needs, and a plan can be made
    /// of it; all that lacks is named.
    pub fn check_closed_world(&self) -> Result<(), SessionError> {
        self.check_world(unsupported::refuse)
    }

    /// The same for a look at the hosts, which does not stop at roles that no recipe installs yet.
    ///
    /// # Errors
    /// Something else lacks, or what no recipe installs yet is more than roles; all of it is named.
    pub fn check_for_preflight(&self) -> Result<(), SessionError> {
        self.check_world(unsupported::refuse_preflight)
    }

    fn check_world(&self, refuse: impl Fn(&Cluster) -> Result<(), RecipeError>) -> Result<(), SessionError> {
        let facts = BTreeMap::new();
        let cx = self.plan_cx(&facts, &self.packages);
        cx.kubernetes()?;
        refuse(cx.cluster)?;
        self.materials.check()?;
        bundle::check(&cx)?;
        match config::check(&cx) {
            wrong if wrong.is_empty() => Ok(()),
            wrong => Err(SessionError::Recipe(wrong)),
        }
    }

    /// Whether it may take the place of what this controller remembers as installed. [`Session::observe`] asks it too; asked
    /// before that, nothing was read whole and nobody was asked anything.
    ///
    /// # Errors
    /// It is older, or of another signer, and that is not allowed; or what is remembered cannot be read.
    pub fn check_remembered(&self, session: &Session<'_>) -> Result<(), SessionError> {
        match installed::installed_bundle(&session.home.cluster(&self.cluster.name))? {
            Some(known) => self.check_replaces(&known, "this controller"),
            None => Ok(()),
        }
    }

    /// The same by the stamps of nodes, which other controllers may have written.
    pub(crate) fn check_stamps(&self, facts: &BTreeMap<String, Facts>) -> Result<(), SessionError> {
        stamps(&self.cluster.name, facts).try_for_each(|(host, known)| self.check_replaces(known, host))
    }

    fn check_replaces(&self, known: &Vouched, remembered_by: &str) -> Result<(), SessionError> {
        Ok(replace::check(known, &self.vouched(), self.replace, remembered_by)?)
    }

    /// The bundle, and who vouches for it.
    pub fn vouched(&self) -> Vouched {
        self.provenance.vouched()
    }

    /// What nodes are to remember: with the keys that vouch for it since they signed an earlier bundle of this cluster. What this
    /// controller remembers counts, and where it remembers nothing, what all nodes agree upon: no node alone adds a key.
    pub(crate) fn vouched_after(
        &self,
        facts: &BTreeMap<String, Facts>,
        home: &ClusterHome,
    ) -> Result<Vouched, SessionError> {
        let known = match installed::installed_bundle(home)? {
            Some(known) => Some(known),
            None => Vouched::agreed(stamps(&self.cluster.name, facts).map(|(_, known)| known)),
        };
        Ok(known.iter().fold(self.vouched(), Vouched::in_place_of))
    }

    /// The same with what lies in state folders moved aside, or refused.
    #[must_use]
    pub fn setting_aside(self, set_aside: bool) -> Self {
        Self { set_aside, ..self }
    }

    /// What planning starts from.
    pub fn plan_cx<'a>(&'a self, facts: &'a BTreeMap<String, Facts>, packages: &'a CarriedPackages) -> PlanCx<'a> {
        PlanCx {
            cluster: &self.cluster,
            cluster_id: None,
            cluster_digest: self.cluster.digest(),
            manifest: self.bundle.manifest(),
            manifest_digest: self.bundle.manifest_digest(),
            vouched: None,
            catalogue: &self.catalogue,
            facts,
            set_aside: self.set_aside,
            packages,
            materials: &self.materials.texts,
        }
    }

    /// What a plan of this cluster and bundle must belong to.
    pub fn belongs(&self) -> Belongs {
        Belongs { cluster: self.cluster.digest(), bundle: Some(self.bundle.manifest_digest()) }
    }
}

impl Verified {
    /// What was verified.
    pub const fn opened(&self) -> &Opened {
        &self.0
    }
}

/// What the nodes of a cluster say of the bundle that they have, by host.
fn stamps<'a>(cluster: &'a str, facts: &'a BTreeMap<String, Facts>) -> impl Iterator<Item = (&'a str, &'a Vouched)> {
    facts.iter().filter_map(move |(host, facts)| {
        let stamp = facts.stamp.as_ref().filter(|stamp| stamp.cluster == cluster)?;
        Some((host.as_str(), stamp.bundle.as_ref()?))
    })
}

fn about(bundle: &Bundle) -> String {
    match &bundle.manifest().cluster {
        Some(summary) => format!("Kubernetes {}, {}, {}", summary.kubernetes, summary.runtime, summary.network),
        None => "extras only".to_owned(),
    }
}
