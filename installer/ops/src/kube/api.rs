//! Requests to the API server without kubectl: some milliseconds instead of a process.

use std::sync::Arc;

use serde_json::Value;

use super::credentials::Credentials;
use crate::system::HttpsRequest;
use crate::{Machine, OpError, fsio, paths};

/// Media type of a server-side apply; JSON is YAML.
const APPLY: &str = "application/apply-patch+yaml";

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
pub(super) fn get_as(
    machine: &Machine,
    api: &Credentials,
    path: &str,
    accept: &str,
) -> Result<Option<Value>, OpError> {
    parsed(api, path, request(machine, api, path, Ask { accept: Some(accept), ..Ask::default() })?)
}

/// What an object would be after a server-side apply, which is not carried out.
pub(super) fn dry_apply(
    machine: &Machine,
    api: &Credentials,
    path: &str,
    (manager, object): (&str, &Value),
) -> Result<Option<Value>, OpError> {
    let path = format!("{path}?dryRun=All&force=true&fieldManager={manager}");
    let ask = Ask { method: "PATCH", body: &object.to_string(), content: Some(APPLY), accept: None };
    parsed(api, &path, request(machine, api, &path, ask)?)
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
