//! Requests to the API server without kubectl, for surveys: some milliseconds instead of a process.

use serde_json::Value;

use super::credentials::Credentials;
use crate::system::HttpsRequest;
use crate::{Machine, OpError, fsio, paths};

/// The answer at a path within a survey; none outside of a survey, and if kubectl has to be used: the API server cannot
/// be reached this way, or has no such object.
pub(crate) fn in_survey(machine: &Machine, path: &str) -> Option<Value> {
    let survey = machine.survey()?;
    let api = survey.api(|| credentials(machine).ok().flatten())?;
    survey.object(path, || get(machine, api, path).ok().flatten())
}

/// From a real machine's admin.conf; none if it does not exist, or is not as kubeadm writes it: kubectl supports more
/// ways to log in.
pub(super) fn credentials(machine: &Machine) -> Result<Option<Credentials>, OpError> {
    if !machine.is_real() {
        return Ok(None);
    }
    Ok(fsio::read_text(&machine.path(paths::ADMIN_CONF))?.as_deref().and_then(Credentials::parse))
}

/// The object or list at a path (`/api/v1/nodes/n1`); none if it does not exist.
pub(super) fn get(machine: &Machine, api: &Credentials, path: &str) -> Result<Option<Value>, OpError> {
    match request(machine, api, path)? {
        (200, body) => serde_json::from_slice(&body)
            .map(Some)
            .map_err(|error| OpError::other(format!("{}{path} did not return JSON: {error}", api.server))),
        (404, _) => Ok(None),
        (status, _) => Err(OpError::other(format!("{}{path} answers {status}", api.server))),
    }
}

/// The text at a path (`/metrics`).
pub(super) fn get_text(machine: &Machine, api: &Credentials, path: &str) -> Result<String, OpError> {
    match request(machine, api, path)? {
        (200, body) => Ok(String::from_utf8_lossy(&body).into_owned()),
        (status, _) => Err(OpError::other(format!("{}{path} answers {status}", api.server))),
    }
}

fn request(machine: &Machine, api: &Credentials, path: &str) -> Result<(u16, Vec<u8>), OpError> {
    let url = format!("{}{path}", api.server);
    let request = HttpsRequest {
        method: "GET",
        url: &url,
        ca: &api.ca,
        certificate: &api.certificate,
        key: &api.key,
        login: None,
        body: "",
    };
    machine.system().https_request(&request).map(|answer| (answer.status, answer.body))
}
