//! The machine that ops run on: the real one, or one rooted in a directory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::op::Content;
use kubexm_plan::{SlotName, Texts};
use kubexm_spec::Digest;
use kubexm_spec::credential::HOLE;

use crate::OpError;
use crate::archived::Archived;
use crate::digest_cache::DigestCache;
use crate::fault::Faults;
use crate::kube::credentials::LastCredentials;
use crate::ledger::Ledger;
use crate::paths;
use crate::survey_scope::SurveyScope;
use crate::system::{ActContext, Output, Program, System};

/// Root of the file system, the system behind it, and the data that the current step may read. Cheap to clone.
#[derive(Clone)]
pub struct Machine {
    root: PathBuf,
    system: Arc<dyn System>,
    texts: Arc<Texts>,
    slots: Arc<BTreeMap<SlotName, Vec<u8>>>,
    act: Option<ActContext>,
    faults: Option<Arc<Faults>>,
    digest_cache: Arc<DigestCache>,
    archived: Arc<Archived>,
    survey: Option<Arc<SurveyScope>>,
    last_credentials: Arc<LastCredentials>,
    ledger: Option<PathBuf>,
}

// Slot values are secrets: only their names may be shown.
impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("root", &self.root)
            .field("system", &self.system)
            .field("slots", &self.slots.keys().collect::<Vec<_>>())
            .field("act", &self.act)
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// A root with any system.
    pub fn with_system(root: impl Into<PathBuf>, system: Arc<dyn System>) -> Self {
        let root = root.into();
        let digest_cache = Arc::new(DigestCache::below(&root));
        let (texts, slots, archived, last_credentials) = Default::default();
        let (act, faults, survey, ledger) = (None, None, None, None);
        Self { root, system, texts, slots, act, faults, digest_cache, archived, survey, last_credentials, ledger }
    }

    /// The same machine with the texts of a plan.
    #[must_use]
    pub fn with_texts(&self, texts: impl Into<Arc<Texts>>) -> Self {
        Self { texts: texts.into(), ..self.clone() }
    }

    /// The same machine with its ledger in another folder.
    #[must_use]
    pub fn with_ledger(&self, folder: impl Into<PathBuf>) -> Self {
        Self { ledger: Some(folder.into()), ..self.clone() }
    }

    /// The same machine with slot values for one step.
    #[must_use]
    pub fn with_slots(&self, slots: BTreeMap<SlotName, Vec<u8>>) -> Self {
        Self { slots: Arc::new(slots), ..self.clone() }
    }

    /// The same machine for a step of a run, which determines the names of transient units and logs of acts.
    #[must_use]
    pub fn with_act(&self, act: ActContext) -> Self {
        Self { act: Some(act), ..self.clone() }
    }

    /// The same machine with injected faults.
    #[must_use]
    pub fn with_faults(&self, faults: Arc<Faults>) -> Self {
        Self { faults: Some(faults), ..self.clone() }
    }

    /// The same machine within one survey: observations share their queries, and cached digests are used for unchanged
    /// files. Must not be used for changes.
    #[must_use]
    pub(crate) fn in_survey(&self, scope: SurveyScope) -> Self {
        Self { survey: Some(Arc::new(scope)), ..self.clone() }
    }

    /// Data that the observations of a survey share, within one.
    pub(crate) fn survey(&self) -> Option<&SurveyScope> {
        self.survey.as_deref()
    }

    /// The credentials for the API server that were used last.
    pub(crate) fn last_credentials(&self) -> &LastCredentials {
        &self.last_credentials
    }

    /// Cached digests of large files.
    pub(crate) fn digest_cache(&self) -> &DigestCache {
        &self.digest_cache
    }

    /// Cached contents of archives.
    pub(crate) fn archived(&self) -> &Archived {
        &self.archived
    }

    /// The path of this process for an absolute path of the machine.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The root folder, `/` for the real one.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether this is the real machine.
    pub fn is_real(&self) -> bool {
        self.system.is_real()
    }

    /// The system behind the file system.
    pub fn system(&self) -> &dyn System {
        &*self.system
    }

    /// The current step, if there is one.
    pub fn act(&self) -> Option<&ActContext> {
        self.act.as_ref()
    }

    pub(crate) fn faults(&self) -> Option<&Faults> {
        self.faults.as_deref()
    }

    /// Runs a program; an exit code other than 0 is an error that quotes its output.
    pub fn run(&self, program: &Program) -> Result<Output, OpError> {
        let output = self.system.run(program)?;
        succeeded(program, output).map_err(|error| self.hide(error))
    }

    /// Runs a program and returns its exit code.
    pub fn try_run(&self, program: &Program) -> Result<Output, OpError> {
        self.system.run(program)
    }

    /// Runs the program of an act: on a real machine as a transient unit of the step.
    pub fn run_act(&self, program: &Program) -> Result<Output, OpError> {
        let act = self.act.as_ref().ok_or_else(|| {
            OpError::other(format!(
                "`{program}` is an act and must be run within a step; this is a fault of the program"
            ))
        })?;
        let output = self.system.run_act(act, program).map_err(|error| self.hide(error))?;
        succeeded(program, output).map_err(|error| self.hide(error))
    }

    fn hide(&self, error: OpError) -> OpError {
        match error {
            OpError::Program { program, status, stderr } => {
                OpError::Program { program, status, stderr: self.without_slots(stderr) }
            }
            OpError::Other(text) => OpError::Other(self.without_slots(text)),
            other => other,
        }
    }

    /// A text of the plan.
    pub fn text(&self, digest: &Digest) -> Result<&str, OpError> {
        self.texts.get(digest).map(String::as_str).ok_or_else(|| {
            OpError::other(format!("text {digest} was not sent with the step; this is a fault of the program"))
        })
    }

    /// The desired bytes of a file op.
    pub fn content(&self, content: &Content) -> Result<Cow<'_, [u8]>, OpError> {
        match content {
            Content::Text { digest } => Ok(Cow::Borrowed(self.text(digest)?.as_bytes())),
            Content::Filled { digest, slots } => Ok(Cow::Owned(self.filled(digest, slots)?.into_bytes())),
            Content::Slot { slot } => self.slot(slot).map(Cow::Borrowed),
        }
    }

    /// A slot's value; usually a secret.
    pub(crate) fn slot(&self, slot: &SlotName) -> Result<&[u8], OpError> {
        self.slots.get(slot).map(Vec::as_slice).ok_or_else(|| {
            OpError::other(format!("the value of slot {} was not sent with the step; run again", slot.0))
        })
    }

    /// A text of the plan with the placeholders of these slots replaced by their values. Placeholders within values are
    /// not replaced.
    pub(crate) fn filled(&self, digest: &Digest, slots: &[SlotName]) -> Result<String, OpError> {
        self.filled_with(digest, slots, |slot| self.slot_text(slot).map(str::to_owned))
    }

    /// The same with base64 of the values.
    pub(crate) fn filled_in_base64(&self, digest: &Digest, slots: &[SlotName]) -> Result<String, OpError> {
        self.filled_with(digest, slots, |slot| self.slot(slot).map(|value| BASE64.encode(value)))
    }

    fn filled_with(
        &self,
        digest: &Digest,
        slots: &[SlotName],
        value: impl Fn(&SlotName) -> Result<String, OpError>,
    ) -> Result<String, OpError> {
        fill(self.text(digest)?, digest, slots, value)
    }

    /// A part of a text of the plan, with the placeholders of these slots replaced by their values.
    pub(crate) fn filled_text(&self, part: &str, of: &Digest, slots: &[SlotName]) -> Result<String, OpError> {
        fill(part, of, slots, |slot| self.slot_text(slot).map(str::to_owned))
    }

    fn slot_text(&self, slot: &SlotName) -> Result<&str, OpError> {
        let no_text = |_| OpError::other(format!("the value of slot {} is not UTF-8 text", slot.0));
        std::str::from_utf8(self.slot(slot)?).map_err(no_text)
    }

    /// A text for people without the values that the step was given: a program quotes what it could not read, by whole lines or
    /// parts of them.
    pub(crate) fn without_slots(&self, mut text: String) -> String {
        let values = self.slots.values().filter_map(|value| std::str::from_utf8(value).ok());
        // In the encoding of Secrets.
        let encoded: Vec<String> = self.slots.values().map(|value| BASE64.encode(value)).collect();
        let mut pieces: Vec<&str> = values.chain(encoded.iter().map(String::as_str)).flat_map(pieces).collect();
        // A piece may be contained in a longer one.
        pieces.sort_by_key(|piece| std::cmp::Reverse(piece.len()));
        for piece in pieces {
            text = text.replace(piece, "(secret)");
        }
        text
    }

    /// The digest of the desired content of a file op; the text itself is not needed.
    pub fn content_digest(&self, content: &Content) -> Result<Digest, OpError> {
        match content {
            Content::Text { digest } => Ok(*digest),
            Content::Filled { .. } | Content::Slot { .. } => Ok(Digest::of(self.content(content)?)),
        }
    }

    /// The path of a blob in the node's content store.
    pub fn blob(&self, digest: &Digest) -> PathBuf {
        self.path(format!("{}/blobs/sha256/{}", paths::STORE, digest.hex()))
    }

    /// The folder of the node's content store.
    pub fn store(&self) -> PathBuf {
        self.path(paths::STORE)
    }

    /// The node's ledger.
    pub fn ledger(&self) -> Ledger {
        Ledger::at(self.ledger.clone().unwrap_or_else(|| self.path(paths::LEDGER)))
    }
}

/// A text with its placeholders replaced. Placeholders within values are not.
fn fill(
    text: &str,
    digest: &Digest,
    slots: &[SlotName],
    value: impl Fn(&SlotName) -> Result<String, OpError>,
) -> Result<String, OpError> {
    let mut parts = text.split(HOLE);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let place = slots.iter().find_map(|slot| Some((slot, part.strip_prefix(&slot.0)?.strip_prefix("}}")?)));
        let (slot, rest) = place.ok_or_else(|| {
            OpError::other(format!("text {digest} names a slot that its op does not list; this is a fault of the plan"))
        })?;
        filled.push_str(&value(slot)?);
        filled.push_str(rest);
    }
    Ok(filled)
}

/// Shorter parts of a value may be ordinary words.
const SHORTEST: usize = 8;

/// The value, its lines, and the words in them.
fn pieces(value: &str) -> impl Iterator<Item = &str> {
    let words = value.split(|c: char| c.is_whitespace() || "\"',{}[]".contains(c));
    let all = [value, value.trim()].into_iter().chain(value.lines().map(str::trim)).chain(words);
    all.filter(|piece| piece.len() >= SHORTEST)
}

fn succeeded(program: &Program, output: Output) -> Result<Output, OpError> {
    if output.code == 0 {
        return Ok(output);
    }
    Err(OpError::Program {
        program: program.to_string(),
        status: format!("exit code {}", output.code),
        stderr: output.tail(),
    })
}
