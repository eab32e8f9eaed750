//! Answers from the content store: whole blobs and ranges of them, never anything else below the folder.

use std::path::PathBuf;

use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use kubexm_spec::Digest;
use tower::ServiceExt;
use tower_http::services::ServeFile;

use crate::conditions;

/// A folder of files by digest, as the content store is.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join("blobs/sha256").join(digest.hex())
    }

    /// GET or HEAD of a blob, with Range. The digest is the ETag, so a resumed download can be sure of its first half, and who
    /// has the bytes already is sent none.
    pub async fn answer(&self, request: Request<Body>, digest: &Digest, media_type: &str) -> Response<Body> {
        let tag = format!("\"{digest}\"");
        let mut response = match conditions::met(request, &tag) {
            Ok(request) => {
                let Ok(response) = ServeFile::new(self.path(digest)).oneshot(request).await;
                response.map(Body::new)
            }
            Err(status) => status.into_response(),
        };
        // What has no content (304, 412, 416) names what it is about, too.
        if response.status() == StatusCode::NOT_FOUND {
            return response;
        }
        let headers = response.headers_mut();
        if let Ok(value) = HeaderValue::from_str(media_type) {
            headers.insert(header::CONTENT_TYPE, value);
        }
        // A blob never changes: no Last-Modified games, and `If-Range` can name the digest.
        headers.remove(header::LAST_MODIFIED);
        for (name, value) in
            [(header::ETAG, tag), (header::HeaderName::from_static("docker-content-digest"), digest.to_string())]
        {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// 404 in plain text, for routes outside the registry.
pub fn not_here(what: &str) -> Response<Body> {
    (StatusCode::NOT_FOUND, format!("{what} is not in this depot\n")).into_response()
}
