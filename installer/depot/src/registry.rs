//! The pull half of OCI distribution-spec v1.1, from a fixed set of repositories.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use kubexm_spec::{Digest, depot};
use serde::Deserialize;

use crate::content::Store;

/// What a request is answered from.
#[derive(Debug)]
pub struct Registry {
    pub config: depot::DepotConfig,
    pub store: Store,
    /// Every digest that may be asked for at `/blobs/`.
    pub known: BTreeSet<Digest>,
}

/// Codes of distribution-spec, "Error Codes".
enum Refusal {
    NameUnknown(String),
    ManifestUnknown(String),
    BlobUnknown(String),
    Unsupported,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let (status, code, message) = match self {
            Self::NameUnknown(name) => {
                (StatusCode::NOT_FOUND, "NAME_UNKNOWN", format!("no repository {name} in this depot"))
            }
            Self::ManifestUnknown(what) => {
                (StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN", format!("no manifest {what} in this depot"))
            }
            Self::BlobUnknown(what) => (StatusCode::NOT_FOUND, "BLOB_UNKNOWN", format!("no blob {what} in this depot")),
            Self::Unsupported => (
                StatusCode::METHOD_NOT_ALLOWED,
                "UNSUPPORTED",
                "this depot is read-only: its content is that of the bundle".to_owned(),
            ),
        };
        let body = serde_json::json!({ "errors": [{ "code": code, "message": message }] });
        (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
    }
}

/// `GET /v2/`: this is a registry.
pub async fn version() -> Response<Body> {
    let mut response = (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], "{}").into_response();
    response.headers_mut().insert("docker-distribution-api-version", HeaderValue::from_static("registry/2.0"));
    response
}

/// Everything below `/v2/`: repository names hold slashes, so the last parts of the path decide.
pub async fn below(
    State(registry): State<Arc<Registry>>,
    Path(path): Path<String>,
    request: Request<Body>,
) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Refusal::Unsupported.into_response();
    }
    let answer = match path.rsplitn(3, '/').collect::<Vec<_>>().as_slice() {
        [reference, "manifests", name] => registry.manifest(name, reference, request).await,
        [digest, "blobs", name] => registry.blob(name, digest, request).await,
        ["list", "tags", name] => registry.tags(name),
        _ => Err(Refusal::NameUnknown(path)),
    };
    answer.unwrap_or_else(IntoResponse::into_response)
}

impl Registry {
    fn repository(&self, name: &str) -> Result<&depot::Repository, Refusal> {
        self.config.images.get(name).ok_or_else(|| Refusal::NameUnknown(name.to_owned()))
    }

    async fn manifest(&self, name: &str, reference: &str, request: Request<Body>) -> Result<Response<Body>, Refusal> {
        let repository = self.repository(name)?;
        let unknown = || Refusal::ManifestUnknown(format!("{name}:{reference}"));
        let digest = match reference.parse::<Digest>() {
            Ok(digest) => digest,
            Err(_) => *repository.tags.get(reference).ok_or_else(unknown)?,
        };
        if !repository.manifests.contains(&digest) {
            return Err(unknown());
        }
        let media_type = self.media_type(&digest).await.ok_or_else(unknown)?;
        Ok(self.store.answer(request, &digest, &media_type).await)
    }

    async fn blob(&self, name: &str, digest: &str, request: Request<Body>) -> Result<Response<Body>, Refusal> {
        let repository = self.repository(name)?;
        let unknown = || Refusal::BlobUnknown(format!("{name}@{digest}"));
        let digest = digest.parse::<Digest>().map_err(|_| unknown())?;
        if !repository.blobs.contains(&digest) && !repository.manifests.contains(&digest) {
            return Err(unknown());
        }
        Ok(self.store.answer(request, &digest, "application/octet-stream").await)
    }

    fn tags(&self, name: &str) -> Result<Response<Body>, Refusal> {
        let tags: Vec<&String> = self.repository(name)?.tags.keys().collect();
        let body = serde_json::json!({ "name": name, "tags": tags });
        Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response())
    }

    /// What the manifest says it is. OCI manifests may leave the field out; then its shape tells (image-spec,
    /// manifest.md and image-index.md: an index has `manifests`).
    async fn media_type(&self, digest: &Digest) -> Option<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Head {
            media_type: Option<String>,
            manifests: Option<serde::de::IgnoredAny>,
        }
        let bytes = tokio::fs::read(self.store.path(digest)).await.ok()?;
        let head: Head = serde_json::from_slice(&bytes).ok()?;
        Some(head.media_type.unwrap_or_else(|| {
            let shape = if head.manifests.is_some() { "index" } else { "manifest" };
            format!("application/vnd.oci.image.{shape}.v1+json")
        }))
    }
}
