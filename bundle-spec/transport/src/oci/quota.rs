//! What a project of Harbor may hold, asked before a push (goharbor/harbor, api/v2.0/swagger.yaml, `getProjectSummary`). The distribution
//! specification has nothing of the kind.

use reqwest::header::{self, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;

use super::credentials::Auth;
use super::endpoint::Request;
use super::login::basic;
use super::push::Repository;
use super::session::Challenge;
use crate::attempt::Attempt;

/// How Harbor's token service calls itself.
const SERVICE: &str = "harbor-registry";
/// A name of digits alone is a name.
const IS_NAME: HeaderName = HeaderName::from_static("x-is-resource-name");
/// The largest answer that is read, in bytes.
const LIMIT: u64 = 1 << 20;

/// The quota of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The project: the first part of a repository's name.
    pub project: String,
    /// Most bytes of its blobs.
    pub limit: u64,
    /// Bytes that it has now.
    pub used: u64,
}

impl Repository {
    /// The quota of this repository's project; none where the registry is not Harbor, the project has no limit, or these credentials may
    /// not see it. It must have been asked something before ([`Repository::check_api`]).
    pub async fn quota(&self) -> Option<Quota> {
        let is_harbor = match &*self.session.challenge.lock().await {
            Some(Challenge::Bearer { service, .. }) => service.as_deref() == Some(SERVICE),
            Some(Challenge::Open | Challenge::Basic) | None => false,
        };
        let Auth::Basic(user, password) = &self.session.auth else { return None };
        if !is_harbor {
            return None;
        }
        let project = self.reference.repository().split('/').next()?.to_owned();
        let mut login = HeaderValue::from_str(&basic(user, password)).ok()?;
        login.set_sensitive(true);
        let body = self.summary(&project, login).await.ok().flatten()?;
        let (limit, used) = read(&body)?;
        Some(Quota { project, limit, used })
    }

    /// None to who may not see it.
    async fn summary(&self, project: &str, authorization: HeaderValue) -> Result<Option<Vec<u8>>, Attempt> {
        let login = self.login();
        let endpoint = self.endpoint(&login);
        let mut url: Url = endpoint.url("")?;
        url.set_path(&format!("/api/v2.0/projects/{project}/summary"));
        let request = Request::new(Method::GET, url.clone())
            .header(header::ACCEPT, "application/json")?
            .header(IS_NAME, "true")?;
        // Nothing depends on it: it is not asked again.
        let response = endpoint.send_once(&request, Some(authorization), &|_| {}).await?;
        match response.status() {
            StatusCode::OK => endpoint.body(&url, response, LIMIT).await.map(Some),
            _ => Ok(None),
        }
    }
}

/// Limit and use; none without a limit (-1).
fn read(body: &[u8]) -> Option<(u64, u64)> {
    #[derive(Deserialize)]
    struct Summary {
        quota: Option<Of>,
    }
    #[derive(Deserialize)]
    struct Of {
        hard: Storage,
        #[serde(default)]
        used: Storage,
    }
    #[derive(Default, Deserialize)]
    struct Storage {
        #[serde(default)]
        storage: i64,
    }
    let quota = serde_json::from_slice::<Summary>(body).ok()?.quota?;
    let limit = u64::try_from(quota.hard.storage).ok().filter(|limit| *limit > 0)?;
    Some((limit, u64::try_from(quota.used.storage).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_tells_a_limit_only_where_there_is_one() {
        let of = |text: &str| read(text.as_bytes());
        assert_eq!(
            of(r#"{"repo_count":3,"quota":{"hard":{"storage":1024},"used":{"storage":1000}}}"#),
            Some((1024, 1000))
        );
        assert_eq!(of(r#"{"quota":{"hard":{"storage":1024}}}"#), Some((1024, 0)));
        for none in [r#"{"quota":{"hard":{"storage":-1},"used":{"storage":5}}}"#, r#"{"repo_count":3}"#, "<html>", "{}"]
        {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
