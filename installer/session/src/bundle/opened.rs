//! An opened bundle, and one whose every byte was verified, each with the cluster to install.

use std::collections::BTreeMap;
use std::num::NonZero;

use kubexm_archive::{Bundle, DOCUMENT_LIMIT};
use kubexm_engine::events::event;
use kubexm_engine::{Belongs, EventSink};
use kubexm_manifests::Catalogue;
use kubexm_plan::{BundleRecord, Facts, Pipeline};
use kubexm_recipes::charts::CarriedCharts;
use kubexm_recipes::packages::CarriedPackages;
use kubexm_recipes::{Finding, PlanContext, SignedCertificates, bundle, config, unsupported};
use kubexm_spec::event::EventKind;

use super::cluster_file::ClusterFile;
use super::materials::ReadMaterials;
use super::trust::Provenance;
use super::verified::VerifiedFiles;
use super::{installed, lock, network_manifest, replace, values_files};
use crate::error::SessionError;
use crate::escaped::escaped;
use crate::events;
use crate::home::ClusterHome;
use crate::options::{BundleOptions, ReplaceOptions};
use crate::session::Session;
use crate::site_certificates;

/// Bundle, cluster and catalogue. Only [`Session::open`] creates one.
#[derive(Debug)]
pub struct Opened {
    /// Its structure is valid; blobs are verified when they are used.
    pub(super) bundle: Bundle,
    pub(super) provenance: Provenance,
    /// The operator takes it although nobody trusted has signed it.
    pub(super) allow_unsigned: bool,
    pub(super) cluster: ClusterFile,
    /// The bundle's own.
    pub(super) catalogue: Catalogue,
    /// The packages in its lock, before any of them was read.
    pub(super) packages: CarriedPackages,
    /// How its charts were rendered.
    pub(super) charts: CarriedCharts,
    /// Texts that cluster.yaml names.
    pub(super) materials: ReadMaterials,
    /// What the site's CA has signed, where its key stays with the site.
    pub(super) signed: Option<SignedCertificates>,
    pub(super) set_aside: bool,
    /// Hosts take nothing from each other in the run that follows.
    pub(super) without_fan_out: bool,
    pub(super) new_registry_ca: bool,
    /// What it is used for.
    pub(super) pipeline: Pipeline,
    /// Hosts' installed packages are compared with the bundle's.
    pub(super) os_packages: bool,
    /// Which installed bundle it may replace.
    pub(super) replace: ReplaceOptions,
}

/// An opened bundle of which every byte was read and verified, now or earlier. Only [`Opened::verify`] creates one.
#[derive(Debug)]
pub struct Verified(Opened);

impl Session<'_> {
    /// Opens a bundle, checks its signatures before anything else in it is trusted, and reads its documents.
    ///
    /// # Errors
    /// It is not a bundle, does not have the required signatures, or its documents cannot be used.
    pub fn open(&self, options: &BundleOptions) -> Result<Opened, SessionError> {
        events::phase(self.events, "bundle");
        let bundle = Bundle::open_all(&options.bundle)?;
        let provenance = options.trust.judge(&bundle, self.home)?;
        // Nothing in it is trusted yet: the name is on the same line as the result, so that it cannot imitate another
        // message.
        let about = format!("{}: {}; {}", bundle.manifest().name, about(&bundle), provenance.trust());
        events::note(self.events, escaped(&about));
        // Missing content is reported now, before anything is changed. The delta's manifest, which is covered by the
        // signature, has the digests of the content from the bases.
        let bases = options.bases.iter().map(|base| Bundle::open(base)).collect::<Result<_, _>>()?;
        let bundle = bundle.on_bases(bases)?;
        let catalogue = Catalogue::from_json(&bundle.read("catalogue.json", DOCUMENT_LIMIT)?)?;
        let cluster = match &options.file {
            Some(path) => ClusterFile::of_operator(path)?,
            None => ClusterFile::of_bundle(&bundle, &provenance)?,
        };
        let (packages, renderings) = lock::read(&bundle)?;
        let values_files = values_files::read(&cluster, options.file.as_deref())?;
        let manifest = network_manifest::read(&cluster, &bundle)?;
        let charts = CarriedCharts { renderings, values_files, manifest };
        let materials = ReadMaterials::read(&cluster, options.file.as_deref(), &bundle);
        let ca = cluster.external_ca().and_then(|ca| materials.texts.get(&ca.cert_file.name));
        let signed = site_certificates::read(self.home, &cluster, ca.map(String::as_str), self.clock.now());
        let replace = options.replace;
        let (set_aside, without_fan_out, new_registry_ca) = (false, false, false);
        let (pipeline, os_packages) = (Pipeline::Create, false);
        Ok(Opened {
            bundle,
            provenance,
            allow_unsigned: options.trust.allow_unsigned,
            cluster,
            catalogue,
            packages,
            charts,
            materials,
            signed,
            set_aside,
            without_fan_out,
            new_registry_ca,
            pipeline,
            os_packages,
            replace,
        })
    }

    /// Whether a bundle leaves out what others have. Nothing in it is trusted yet.
    ///
    /// # Errors
    /// It is not a bundle.
    pub fn is_delta(&self, options: &BundleOptions) -> Result<bool, SessionError> {
        Ok(Bundle::open_all(&options.bundle)?.left_out().next().is_some())
    }
}

impl Opened {
    /// Reads every byte of the bundle and follows every reference, unless exactly these files were verified before on a
    /// file system that shows when a file is replaced.
    ///
    /// # Errors
    /// Content does not match the manifest, or referenced content is missing.
    pub fn verify(self, session: &Session<'_>) -> Result<Verified, SessionError> {
        events::phase(session.events, "verify");
        let files = VerifiedFiles::look(&self.bundle)?;
        let unreliable = files.unreliable(session.file_systems, &session.home.verified())?;
        if let Some(name) = &unreliable {
            let text = format!(
                "the bundle is on {name}, where a replaced file cannot be distinguished from the verified one: every use verifies it anew; \
                 a copy on a disk of this machine (ext4, XFS, btrfs) is verified once"
            );
            events::note(session.events, text);
        } else if files.is_noted(&session.home.verified()) {
            events::note(session.events, "this file was verified before and has not changed since");
            return Ok(Verified(self));
        }
        for file in std::iter::once(&self.bundle).chain(self.bundle.bases()) {
            verify_bytes(file, session.events)?;
        }
        kubexm_archive::check_references(&self.bundle).map_err(|error| SessionError::Incomplete(Box::new(error)))?;
        events::note(session.events, "the bundle is verified: checksums match, and it is complete");
        if unreliable.is_none() {
            files.keep(&session.home.verified())?;
        }
        Ok(Verified(self))
    }

    /// The bundle.
    pub const fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// The result of checking its signatures.
    pub const fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// Whether a program of the bundle may run on this machine, with all that its operator may do.
    pub(crate) fn may_run_here(&self) -> bool {
        self.allow_unsigned || self.provenance.vouches_for(&self.bundle)
    }

    /// The bundle's own cluster.yaml, or the operator's.
    pub const fn cluster(&self) -> &ClusterFile {
        &self.cluster
    }

    /// The bundle's own catalogue.
    pub(crate) const fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// What the site's CA has signed, where its key stays with the site.
    pub(crate) const fn signed(&self) -> Option<&SignedCertificates> {
        self.signed.as_ref()
    }

    /// Texts that its cluster.yaml names.
    pub(crate) const fn materials(&self) -> &ReadMaterials {
        &self.materials
    }

    /// Checks that recipes support everything in the cluster, that the bundle has everything that it needs, and that a
    /// plan can be made; every problem is reported.
    pub fn check_closed_world(&self) -> Result<(), SessionError> {
        let facts = BTreeMap::new();
        let cx = self.plan_cx(&facts, &self.packages);
        cx.kubernetes()?;
        unsupported::refuse(cx.cluster)?;
        self.materials.check()?;
        bundle::check(&cx)?;
        match config::check(&cx) {
            wrong if wrong.is_empty() => Ok(()),
            wrong => Err(SessionError::Recipe(wrong)),
        }
    }

    /// Checks whether it may replace the bundle that this controller has recorded as installed. [`Session::observe`]
    /// repeats the check; calling it earlier avoids verifying the bundle and asking questions for nothing.
    ///
    /// # Errors
    /// It is older or from another signer, and that is not allowed; or the record cannot be read.
    pub fn check_remembered(&self, session: &Session<'_>) -> Result<(), SessionError> {
        match installed::installed_bundle(&session.home.cluster(&self.cluster.name))? {
            Some(known) => self.check_replaces(&known, "this controller"),
            None => Ok(()),
        }
    }

    /// The same check against a bundle that is installed before it.
    ///
    /// # Errors
    /// It is older or from another signer, and that is not allowed.
    pub fn check_after(&self, earlier: &Self) -> Result<(), SessionError> {
        self.check_replaces(&earlier.bundle_record(), &earlier.bundle.path().display().to_string())
    }

    /// The same check against the stamps of nodes, which other controllers may have written.
    pub(crate) fn check_stamps(&self, facts: &BTreeMap<String, Facts>) -> Result<(), SessionError> {
        stamps(&self.cluster.name, facts).try_for_each(|(host, known)| self.check_replaces(known, host))
    }

    fn check_replaces(&self, known: &BundleRecord, remembered_by: &str) -> Result<(), SessionError> {
        Ok(replace::check(known, &self.bundle_record(), self.replace, remembered_by)?)
    }

    /// The bundle and its signers.
    pub fn bundle_record(&self) -> BundleRecord {
        self.provenance.bundle_record()
    }

    /// What is recorded on nodes, including the keys that signed an earlier bundle of this cluster. This controller's
    /// record decides; without one, what all nodes agree on, so that no single node can add a key.
    pub(crate) fn record_after(
        &self,
        facts: &BTreeMap<String, Facts>,
        home: &ClusterHome,
    ) -> Result<BundleRecord, SessionError> {
        let known = match installed::installed_bundle(home)? {
            Some(known) => Some(known),
            None => BundleRecord::agreed(stamps(&self.cluster.name, facts).map(|(_, known)| known)),
        };
        Ok(known.iter().fold(self.bundle_record(), BundleRecord::in_place_of))
    }

    /// Sets whether the content of state folders is moved aside; otherwise it is refused.
    #[must_use]
    pub fn setting_aside(self, set_aside: bool) -> Self {
        Self { set_aside, ..self }
    }

    /// Sets whether hosts take nothing from each other in the run that follows ([`crate::RunOptions::fan_out`]): then preflight does
    /// not look at the port for that.
    #[must_use]
    pub fn without_fan_out(self, without_fan_out: bool) -> Self {
        Self { without_fan_out, ..self }
    }

    /// Sets whether a new CA is made for the registry, in place of the one that the cluster has.
    #[must_use]
    pub fn with_new_registry_ca(self, new_registry_ca: bool) -> Self {
        Self { new_registry_ca, ..self }
    }

    /// What it is used for.
    pub(crate) const fn pipeline(&self) -> Pipeline {
        self.pipeline
    }

    /// Lets preflight accept what a pipeline changes of a running cluster.
    #[must_use]
    pub fn for_pipeline(self, pipeline: Pipeline) -> Self {
        Self { pipeline, ..self }
    }

    /// Reads the bundle's packages also for hosts that are missing none, to which an upgrade may bring newer ones.
    #[must_use]
    pub fn comparing_packages(self, os_packages: bool) -> Self {
        Self { os_packages, ..self }
    }

    /// The checks of preflight for what it is used for.
    pub(crate) fn preflight(&self, cx: &PlanContext<'_>) -> Vec<Finding> {
        kubexm_recipes::preflight_before(self.pipeline, cx)
    }

    /// Whether a new CA is made for the registry.
    pub(crate) const fn new_registry_ca(&self) -> bool {
        self.new_registry_ca
    }

    /// The input of planning.
    pub fn plan_cx<'a>(&'a self, facts: &'a BTreeMap<String, Facts>, packages: &'a CarriedPackages) -> PlanContext<'a> {
        PlanContext {
            cluster: &self.cluster,
            cluster_id: None,
            cluster_digest: self.cluster.digest(),
            manifest: self.bundle.manifest(),
            manifest_digest: self.bundle.manifest_digest(),
            bundle_record: None,
            catalogue: &self.catalogue,
            facts,
            set_aside: self.set_aside,
            without_fan_out: self.without_fan_out,
            packages,
            materials: &self.materials.texts,
            charts: &self.charts,
            sealing: None,
            from_backup: None,
            signed: self.signed(),
        }
    }

    /// The bundle and cluster that a plan must belong to.
    pub fn belongs(&self) -> Belongs {
        Belongs { cluster: self.cluster.digest(), bundle: Some(self.bundle.manifest_digest()) }
    }
}

impl Verified {
    /// The bundle that was verified.
    pub const fn opened(&self) -> &Opened {
        &self.0
    }

    /// The same, for what needs no proof of it.
    pub fn into_opened(self) -> Opened {
        self.0
    }
}

/// Reads every byte of one bundle, and reports the progress.
pub(super) fn verify_bytes(bundle: &Bundle, events: &dyn EventSink) -> Result<(), SessionError> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let progress = |done, total| {
        let (what, unit) = ("verify".to_owned(), "bytes".to_owned());
        events.emit(event(EventKind::Progress { what, done, total: Some(total), unit }));
    };
    kubexm_archive::verify(bundle, threads, &progress).map_err(|report| SessionError::Damaged(Box::new(report)))?;
    Ok(())
}

/// The bundles in the stamps of a cluster's nodes, by host.
fn stamps<'a>(
    cluster: &'a str,
    facts: &'a BTreeMap<String, Facts>,
) -> impl Iterator<Item = (&'a str, &'a BundleRecord)> {
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
