//! Whether every byte of a bundle is right, who signed it, whether it is complete, and whether its images are signed as its cluster.yaml
//! demands: four questions, four answers.

mod completeness;
mod image_signatures;
mod request;
mod subject;

use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_archive::{DamageReport, Signature};
use kubexm_signing::{Policy, Trust};
use kubexm_spec::{Digest, ExitCode, ExitError, error_chain};
use serde::Serialize;

use super::signatures::{Listed, listed};
use crate::session::{Session, SessionError};
pub use completeness::Completeness;
pub use image_signatures::Images;
pub use request::Request;
use subject::Subject;

/// The schema of the answer.
const SCHEMA: &str = "kubexm.io/verify/v1";

/// What was found. Of what could not be opened, most of it is none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    schema: &'static str,
    /// As it was named.
    pub file: PathBuf,
    /// Every volume; none of a stream.
    pub files: Vec<PathBuf>,
    pub quick: bool,
    /// Digest of manifest.json.
    pub manifest: Option<Digest>,
    pub bundle_id: Option<Digest>,
    pub bytes: Bytes,
    pub signature: Option<Signed>,
    pub complete: Complete,
    /// None where cluster.yaml demands no signatures (`spec.bundle.imageSignatures`), or that was not asked.
    pub image_signatures: Option<Images>,
    /// None of a full bundle.
    pub delta: Option<Delta>,
    /// Why the bundle could not be opened, where its bytes are not to blame.
    pub problem: Option<String>,
    /// The most severe of the answers.
    #[serde(serialize_with = "number")]
    pub exit_code: ExitCode,
    /// Artifacts and members of the manifest, by number.
    #[serde(skip)]
    pub counts: (usize, usize),
}

/// Whether the bytes are right.
#[derive(Debug, Serialize)]
pub struct Bytes {
    /// None where they were not seen.
    pub ok: Option<bool>,
    /// A line for each place.
    pub damage: Vec<String>,
    pub places: Vec<Place>,
    /// The bundle that is damaged: the one that was named, or a base of it.
    #[serde(skip)]
    pub damaged: Option<PathBuf>,
    #[serde(skip)]
    pub is_of_a_base: bool,
}

/// One place that is not as it must be.
#[derive(Debug, Serialize)]
pub struct Place {
    pub file: PathBuf,
    /// The member, or `seek table`, `trailer`, `end of archive`.
    pub part: String,
    /// First byte in `file`.
    pub offset: u64,
    /// In bytes.
    pub length: u64,
    pub problem: String,
}

/// Whom the bundle is from.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Signed {
    /// None when nothing was demanded and nothing could be checked: never to be read as verified.
    pub ok: Option<bool>,
    /// `unsigned`, `notChecked`, `valid`, `invalid`.
    pub state: &'static str,
    /// Ids of trusted keys whose signatures hold.
    pub valid_by: Vec<String>,
    pub signatures: Vec<Listed>,
    /// What was demanded and is not there.
    pub problem: Option<String>,
    /// One line: `unsigned`, `signed by …, not checked`, `signature valid, by …`, or the problem.
    #[serde(skip)]
    pub text: String,
}

/// Whether everything is there.
#[derive(Debug, Serialize)]
pub struct Complete {
    /// None where it was not asked.
    pub ok: Option<bool>,
    pub checked: bool,
    /// Names; of what cannot be opened, files of volumes.
    pub missing: Vec<String>,
    #[serde(skip)]
    pub found: Completeness,
}

/// Of a delta.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delta {
    /// Digest of the base's manifest.json; none when the base was an inventory.
    pub base: Option<Digest>,
    /// Blobs, by number.
    pub left_out: usize,
}

/// Verifies. `stdin` is read where a bundle is called `-`.
pub fn verify(session: &Session, request: &Request<'_>, stdin: impl Read + Send) -> Result<Answer, SessionError> {
    let progress =
        |done, total: u64| session.progress("verify", (done, Some(total).filter(|total| *total > 0)), "bytes");
    let (name, quick, threads) = (request.name(), request.quick, request.threads());
    let (policy, detached) = request.demands()?;
    let subject = Subject::open(session, request, stdin, threads, &progress)?;
    let damage = subject.check(quick, threads, &progress).err();
    // Bytes that did not come are the network's fault, not the bundle's.
    if let Some((code, problem)) = session.broken_off() {
        return Err(SessionError::Refused { code, problem });
    }
    let sources = match subject.documents().sources_json() {
        Ok(sources) => sources.map(|content| Digest::of(&content)),
        // That is reported already; what the signatures say of the manifest holds or does not.
        Err(_) if damage.is_some() => None,
        Err(error) => return Err(error.into()),
    };
    let about = kubexm_signing::Subject { manifest_json: subject.manifest_json(), sources };
    let signature = signed(name, &policy, [subject.signatures(), &detached].concat(), &about);
    // Completeness is read from the content, so it is asked only of content that is right.
    let found = match damage.is_none() && !quick {
        true => Completeness::of(&subject),
        false => Completeness::NotAsked,
    };
    // Where cluster.yaml or the catalogue cannot be read, or a base is missing, that is the answer.
    let images = match &found {
        Completeness::Asked(_) => Images::of(&subject),
        _ if quick => Some(Images::not_checked()),
        _ => None,
    };
    let code = damage.as_ref().map_or(ExitCode::Ok, DamageReport::exit_code);
    let code = images.as_ref().map_or(code, |images| code.worst(images.code()));
    let manifest = subject.documents().manifest();
    let layout = subject.layout();
    Ok(Answer {
        schema: SCHEMA,
        file: name.to_owned(),
        files: subject.files(),
        quick,
        manifest: Some(subject.manifest_digest()),
        bundle_id: Some(subject.bundle_id()),
        bytes: bytes(name, subject.documents().path(), damage),
        exit_code: code.worst(signature.code()).worst(found.code()),
        signature: Some(signature),
        complete: complete(found),
        image_signatures: images,
        delta: layout.is_delta().then_some(Delta { base: layout.base, left_out: layout.left_out.len() }),
        problem: None,
        counts: (manifest.artifacts.len(), manifest.members.len()),
    })
}

impl Answer {
    /// The answer of what cannot be opened, with the keys of one that can. `bytes.ok` is false where the bytes were seen and
    /// are to blame, and none where a path, a server or a base is; `problem` says what then. Volumes that are missing or cut
    /// are in `complete.missing`.
    pub fn unopened(name: &Path, quick: bool, error: &SessionError) -> Self {
        let (code, text) = (error.exit_code(), error_chain(error));
        let blamed = matches!(
            code,
            ExitCode::BundleDamaged | ExitCode::BundleTruncated | ExitCode::BundleNewer | ExitCode::NotABundle
        );
        let missing: Option<Vec<String>> =
            error.details().and_then(|data| serde_json::from_value(data.get("missing")?.clone()).ok());
        let damage = if blamed { vec![text.clone()] } else { Vec::new() };
        let found = Completeness::NotAsked;
        Self {
            schema: SCHEMA,
            file: name.to_owned(),
            files: Vec::new(),
            quick,
            manifest: None,
            bundle_id: None,
            bytes: Bytes {
                ok: blamed.then_some(false),
                damage,
                places: Vec::new(),
                damaged: None,
                is_of_a_base: false,
            },
            signature: None,
            complete: Complete {
                ok: missing.as_ref().map(|_| false),
                checked: false,
                missing: missing.unwrap_or_default(),
                found,
            },
            image_signatures: None,
            delta: None,
            problem: (!blamed).then_some(text),
            exit_code: code,
            counts: (0, 0),
        }
    }
}

impl Signed {
    /// As far as signatures go.
    pub const fn code(&self) -> ExitCode {
        match self.problem {
            None => ExitCode::Ok,
            Some(_) => ExitCode::BundleUntrusted,
        }
    }
}

fn signed(name: &Path, policy: &Policy, all: Vec<Signature>, about: &kubexm_signing::Subject<'_>) -> Signed {
    let (trust, problem) = match policy.judge(&name.display().to_string(), &all, about) {
        Ok(trust) => (trust, None),
        Err(untrusted) => (untrusted.trust, Some(untrusted.problem)),
    };
    let ok = match (&problem, &trust) {
        (Some(_), _) => Some(false),
        (None, Trust::Valid { .. }) => Some(true),
        (None, _) => None,
    };
    let text = problem.clone().unwrap_or_else(|| trust.to_string());
    let valid_by = trust.valid_by().iter().map(ToString::to_string).collect();
    Signed { ok, state: trust.state(), valid_by, signatures: listed(&all), problem, text }
}

fn bytes(name: &Path, bundle: &Path, report: Option<DamageReport>) -> Bytes {
    let ok = Some(report.is_none());
    let Some(DamageReport { path, damages, .. }) = report else {
        return Bytes { ok, damage: Vec::new(), places: Vec::new(), damaged: None, is_of_a_base: false };
    };
    let damage = damages.iter().map(|damage| damage.describe_for(name)).collect();
    let places = damages.into_iter().map(|damage| {
        let kubexm_archive::Damage { file, part, offset, length, problem } = damage;
        Place { file, part, offset, length, problem }
    });
    Bytes { ok, damage, places: places.collect(), is_of_a_base: path != bundle, damaged: Some(path) }
}

fn complete(found: Completeness) -> Complete {
    let (ok, checked, missing) = match &found {
        Completeness::NotAsked => (None, false, Vec::new()),
        Completeness::Unknown => (Some(false), false, Vec::new()),
        Completeness::Asked(missing) => (Some(missing.is_empty()), true, missing.clone()),
        Completeness::Unreadable { problem, .. } => (Some(false), true, vec![problem.clone()]),
    };
    Complete { ok, checked, missing, found }
}

fn number<S: serde::Serializer>(code: &ExitCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(code.code())
}
