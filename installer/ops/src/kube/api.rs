//! Requests to the API server without kubectl: some milliseconds instead of a process.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::credentials::Credentials;
use crate::system::HttpsRequest;
use crate::{Machine, OpError, fsio, paths};

/// Media type of a server-side apply; JSON is YAML.
const APPLY: &str = "application/apply-patch+yaml";

/// As the API server says that a webhook is away (apiserver, `NewFailedCallingWebhook`).
const WEBHOOK: &str = "failed calling webhook";
/// Before it is asked once more.
const PAUSE: Duration = Duration::from_secs(1);

/// The answer at a path within a survey; none outside of a survey, and if kubectl has to be used: the API server cannot
/// be reached this way, or has no such object.
pub(crate) fn in_survey(machine: &Machine, path: &str) -> Option<Value> {
    shared(machine, path, |api| get(machine, api, path).ok().flatten())
}

/// The same of another question, which is asked once within a survey.
pub(super) fn shared(
    machine: &Machine,
    question: &str,
    ask: impl FnOnce(&Credentials) -> Option<Value>,
) -> Option<Value> {
    let survey = machine.survey()?;
    let api = survey.api(|| credentials(machine).ok().flatten())?;
    survey.object(question, || ask(api))
}

/// From a real machine's admin.conf; none if it does not exist, or is not as kubeadm writes it: kubectl supports more
/// ways to log in.
pub(super) fn credentials(machine: &Machine) -> Result<Option<Arc<Credentials>>, OpError> {
    if !machine.is_real() {
        return Ok(None);
    }
    let text = fsio::read_text(&machine.path(paths::ADMIN_CONF))?;
    Ok(text.and_then(|text| machine.last_credentials().of(&text)))
}

/// The object or list at a path (`/api/v1/nodes/n1`); none if it does not exist.
pub(super) fn get(machine: &Machine, api: &Credentials, path: &str) -> Result<Option<Value>, OpError> {
    parsed(api, path, request(machine, api, path, Ask::default())?)
}

/// The same, with these media types of the answer.
pub(super) fn get_as(machine: &Machine, api: &Credentials, path: &str, accept: &str) -> Result<Option<Value>, OpError> {
    parsed(api, path, request(machine, api, path, Ask { accept: Some(accept), ..Ask::default() })?)
}

/// Why there is no object.
pub(super) enum Failed {
    /// It is not there to be compared, whenever it is asked: a kind, a namespace, a webhook that answers no dry run.
    Refused(String),
    /// The API server did not say.
    Silent(OpError),
}

impl From<OpError> for Failed {
    fn from(error: OpError) -> Self {
        Self::Silent(error)
    }
}

/// The object at a path; none if it does not exist.
pub(super) fn find(machine: &Machine, api: &Credentials, path: &str) -> Result<Option<Value>, Failed> {
    match object(machine, api, path, Ask::default()) {
        Err(Failed::Refused(_)) => Ok(None),
        found => found.map(Some),
    }
}

/// What an object would be after a server-side apply, which is not carried out.
pub(super) fn dry_apply(
    machine: &Machine,
    api: &Credentials,
    path: &str,
    (manager, applied): (&str, &Value),
) -> Result<Value, Failed> {
    let path = format!("{path}?dryRun=All&force=true&fieldManager={manager}");
    let ask = Ask { method: "PATCH", body: &applied.to_string(), content: Some(APPLY), accept: None };
    object(machine, api, &path, ask)
}

/// Asked once more where it had too much to do.
fn object(machine: &Machine, api: &Credentials, path: &str, ask: Ask<'_>) -> Result<Value, Failed> {
    let (mut status, mut body) = request(machine, api, path, ask)?;
    if matches!(status, 429 | 502..=504) {
        std::thread::sleep(PAUSE);
        (status, body) = request(machine, api, path, ask)?;
    }
    let text = String::from_utf8_lossy(&body);
    match status {
        200 | 201 => serde_json::from_slice(&body)
            .map_err(|error| OpError::other(format!("{}{path} did not return JSON: {error}", api.server)).into()),
        400 | 403..=405 | 409 | 415 | 422 => Err(Failed::Refused(format!("the API server answers {status}"))),
        // One that nobody reaches, of an API that is not there any more.
        500 if text.contains(WEBHOOK) => Err(Failed::Refused("a webhook does not answer".to_owned())),
        _ => Err(OpError::other(format!("{}{path} answers {status}", api.server)).into()),
    }
}

/// The text at a path (`/metrics`).
pub(super) fn get_text(machine: &Machine, api: &Credentials, path: &str) -> Result<String, OpError> {
    match request(machine, api, path, Ask::default())? {
        (200, body) => Ok(String::from_utf8_lossy(&body).into_owned()),
        (status, _) => Err(OpError::other(format!("{}{path} answers {status}", api.server))),
    }
}

fn parsed(api: &Credentials, path: &str, (status, body): (u16, Vec<u8>)) -> Result<Option<Value>, OpError> {
    match status {
        200 | 201 => serde_json::from_slice(&body)
            .map(Some)
            .map_err(|error| OpError::other(format!("{}{path} did not return JSON: {error}", api.server))),
        404 => Ok(None),
        _ => Err(OpError::other(format!("{}{path} answers {status}", api.server))),
    }
}

/// What of a request is not the same for all.
#[derive(Clone, Copy)]
struct Ask<'a> {
    method: &'a str,
    body: &'a str,
    content: Option<&'a str>,
    accept: Option<&'a str>,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Self { method: "GET", body: "", content: None, accept: None }
    }
}

fn request(
    machine: &Machine,
    api: &Credentials,
    path: &str,
    Ask { method, body, content, accept }: Ask<'_>,
) -> Result<(u16, Vec<u8>), OpError> {
    let url = format!("{}{path}", api.server);
    let request = HttpsRequest {
        method,
        url: &url,
        ca: &api.ca,
        certificate: &api.certificate,
        key: &api.key,
        login: None,
        body,
        content,
        accept,
        over: Some(&api.connections),
    };
    machine.system().https_request(&request).map(|answer| (answer.status, answer.body))
}
