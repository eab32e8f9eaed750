//! The one stream of events that journal readers, screens, reports and `--json` fold.

use serde::{Deserialize, Serialize};

/// The schema of every event line.
pub const SCHEMA: &str = "kubexm.io/event/v1";

/// Something that happened in a build or a run. One JSON object a line; the last of a stream is [`EventKind::Result`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Time in RFC 3339, UTC, set by the emitter.
    pub time: String,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// The kinds of events. Progress may be dropped by a slow reader; the others never are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum EventKind {
    /// A phase of the work begins (`resolve`, `fetch`, `pack`, `verify`, `preflight`, `run` …).
    Phase {
        /// Its name.
        name: String,
    },
    /// Bytes or items have moved.
    Progress {
        /// What is being moved (an artifact, or the phase as a whole).
        what: String,
        /// So far.
        done: u64,
        /// In all, when known.
        total: Option<u64>,
        /// `bytes` or `items`.
        unit: String,
    },
    /// Something a person should know that changes nothing.
    Note {
        /// The text.
        text: String,
    },
    /// Something that may hurt later.
    Warning {
        /// The text, with how to fix it.
        text: String,
    },
    /// An origin is waited for, or was given up for another place.
    Waiting {
        /// Its address, without credentials and query.
        origin: String,
        /// What was seen of it: a status, a connection that broke, for how long nothing came.
        reason: String,
        /// Which try of a transfer it is, from 1; none for a request beside one (a login).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u64>,
        /// How many tries there are in all, unless something comes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempts: Option<u64>,
        /// Pause that the origin requested, in seconds (`Retry-After`; RFC 9110, 10.2.3). A pause beyond the limit is
        /// not waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_s: Option<u64>,
        /// What comes next.
        next: Next,
        /// Milliseconds until then.
        within_ms: u64,
    },
    /// A step began.
    StepStarted {
        /// Step id.
        step: String,
        /// Host it runs on.
        host: String,
        /// Title for people.
        title: String,
    },
    /// A step has taken a while: after 5 s, then ever more rarely.
    StepWaiting {
        /// Step id.
        step: String,
        /// Host it runs on.
        host: String,
        /// Title for people.
        title: String,
        /// What it has seen last of what it waits for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seen: Option<String>,
        /// Seconds since it began.
        waited_s: u64,
        /// Seconds after which an attempt is given up.
        limit_s: u64,
    },
    /// A step came to its end.
    StepEnded {
        /// Step id.
        step: String,
        /// Host it ran on.
        host: String,
        /// Title for people.
        title: String,
        /// How it ended.
        outcome: StepOutcome,
        /// Milliseconds it took.
        duration_ms: u64,
        /// What went wrong, when it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The last event of every stream.
    Result {
        /// Whether the work succeeded.
        ok: bool,
        /// The exit code of the program.
        exit_code: u8,
        /// One sentence.
        summary: String,
        /// Machine-readable details of the verb.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<serde_json::Value>,
    },
}

/// The next action after waiting for an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    /// This try is given up, unless the origin answers before.
    GiveUp,
    /// It is tried again.
    Try,
    /// Another place is asked.
    Elsewhere,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepOutcome {
    /// Nothing was to be done.
    Satisfied,
    /// It changed something, and the change was verified.
    Done,
    /// It failed after its retries.
    Failed,
    /// A step it needs failed.
    Blocked,
    /// It was rolled back.
    Undone,
}
