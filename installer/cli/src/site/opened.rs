//! A bundle that was opened, with the cluster it is to become.

use std::collections::BTreeMap;

use kubexm_archive::{Bundle, DOCUMENT_LIMIT, Incomplete};
use kubexm_engine::events::event;
use kubexm_engine::{Belongs, EventSink};
use kubexm_manifests::Catalogue;
use kubexm_plan::Facts;
use kubexm_recipes::packages::CarriedPackages;
use kubexm_recipes::{PlanCx, RecipeError, built, bundle, config};
use kubexm_spec::event::EventKind;
use kubexm_terminal::Failure;

use super::access::escaped;
use super::cluster_file::ClusterFile;
use super::packages;
use super::trust::Provenance;
use super::verified::Verified;
use crate::commands::args::BundleArgs;
use crate::support::home::Home;
use crate::support::{events, failures};

/// Bundle, cluster and catalogue.
#[derive(Debug)]
pub struct Opened {
    /// Structure holds; blobs are checked where they are used.
    pub bundle: Bundle,
    /// Who vouches for it.
    pub provenance: Provenance,
    /// The bundle's own cluster.yaml, or the one given with `-f`.
    pub cluster: ClusterFile,
    /// The bundle's own.
    pub catalogue: Catalogue,
    /// What its lock says of packages, before any of them is read.
    pub packages: CarriedPackages,
    /// Whether what lies in state folders of the hosts is moved aside.
    pub set_aside: bool,
}

impl Opened {
    /// Opens the bundle, checks whom it is from before anything else in it is trusted, and reads what it says.
    pub fn open(args: &BundleArgs, home: &Home, events: &dyn EventSink) -> Result<Self, Failure> {
        events::phase(events, "bundle");
        let bundle = Bundle::open_all(&args.bundle).map_err(failures::archive)?;
        let provenance = args.trust.judge(&bundle, home)?;
        // Nothing of it is trusted yet: on one line its name can pass for no other.
        let about = format!("{}: {}; {}", bundle.manifest().name, about(&bundle), provenance.trust());
        events::note(events, escaped(&about));
        // What lacks is told now, before anything is changed. The manifest of the delta, which is what is signed, has the
        // digests of what the bases give.
        let bases =
            args.bases.iter().map(|base| Bundle::open(base)).collect::<Result<_, _>>().map_err(failures::archive)?;
        let bundle = bundle.on_bases(bases).map_err(failures::archive)?;
        let catalogue = bundle.read("catalogue.json", DOCUMENT_LIMIT).map_err(failures::archive)?;
        let catalogue = Catalogue::from_json(&catalogue).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
        let cluster = match &args.file {
            Some(path) => ClusterFile::of_operator(path)?,
            None => ClusterFile::of_bundle(&bundle, &provenance)?,
        };
        let packages = packages::of_lock(&bundle)?;
        Ok(Self { bundle, provenance, cluster, catalogue, packages, set_aside: false })
    }

    /// Reads every byte of the bundle and follows every reference, unless this very file was read before.
    pub fn verify(&self, home: &Home, events: &dyn EventSink) -> Result<(), Failure> {
        events::phase(events, "verify");
        let seen = Verified::look(&self.bundle)?;
        if seen.is_noted(&home.verified()) {
            events::note(events, "this very file was verified before and has not changed since");
            return Ok(());
        }
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let progress = |done, total| {
            let (what, unit) = ("verify".to_owned(), "bytes".to_owned());
            events.emit(event(EventKind::Progress { what, done, total: Some(total), unit }));
        };
        for file in std::iter::once(&self.bundle).chain(self.bundle.bases()) {
            kubexm_archive::verify(file, threads, &progress).map_err(damaged)?;
        }
        kubexm_archive::check_references(&self.bundle).map_err(incomplete)?;
        events::note(events, "every byte is right, and everything that is named inside is there");
        seen.keep(&home.verified())
    }

    /// Whether a recipe installs everything that the cluster says, the bundle has everything it needs, and a plan can be made
    /// of it; all that lacks is named.
    pub fn check_closed_world(&self) -> Result<(), Failure> {
        let facts = BTreeMap::new();
        let cx = self.plan_cx(&facts, &self.packages);
        cx.kubernetes().map_err(failures::recipe)?;
        built::refuse(cx.cluster).map_err(failures::recipe)?;
        bundle::check(&cx).map_err(failures::recipe)?;
        let wrong = config::check(&cx);
        let Some(code) = wrong.iter().map(RecipeError::exit_code).max() else { return Ok(()) };
        let texts: Vec<String> = wrong.iter().map(|error| Failure::from_error(code, error).text).collect();
        Err(Failure::new(code, texts.join("\n")))
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
            cluster_digest: self.cluster.digest(),
            manifest: self.bundle.manifest(),
            manifest_digest: self.bundle.manifest_digest(),
            catalogue: &self.catalogue,
            facts,
            set_aside: self.set_aside,
            packages,
        }
    }

    /// What a plan of this cluster and bundle must belong to.
    pub fn belongs(&self) -> Belongs {
        Belongs { cluster: self.cluster.digest(), bundle: Some(self.bundle.manifest_digest()) }
    }
}

/// Every place, not only the first.
fn damaged(report: kubexm_archive::DamageReport) -> Failure {
    let mut text = report.to_string();
    for damage in &report.damages {
        text.push_str(&format!("\n- {}", damage.told_of(&report.path)));
    }
    Failure::new(report.exit_code(), text)
}

/// All that is missing, not only how much.
fn incomplete(error: Incomplete) -> Failure {
    let mut failure = Failure::from_error(error.exit_code(), &error);
    if let Incomplete::Missing { missing, .. } = &error {
        for missing in missing {
            failure.text.push_str(&format!("\n- {missing}"));
        }
    }
    failure
}

fn about(bundle: &Bundle) -> String {
    match &bundle.manifest().cluster {
        Some(summary) => format!("Kubernetes {}, {}, {}", summary.kubernetes, summary.runtime, summary.network),
        None => "extras only".to_owned(),
    }
}
