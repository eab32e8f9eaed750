//! `/packages/`: repositories of the bundle's packages, which apt and dnf of any host of the site read.
//!
//! The depot signs nothing: metadata comes signed from the controller, packages are those of the content store.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use kubexm_spec::{Family, counted, depot};

use crate::content::{self, Store};

/// What requests are answered from.
#[derive(Debug)]
struct Repositories {
    packages: depot::Packages,
    metadata: Store,
    store: Store,
}

/// The routes below `/packages`; packages themselves come from `store`.
pub fn router(packages: depot::Packages, store: Store) -> Router {
    let metadata = Store::at(&packages.metadata);
    Router::new()
        .route("/packages", get(list))
        .route("/packages/", get(list))
        .route("/packages/{name}", get(contents))
        .route("/packages/{name}/", get(contents))
        .route("/packages/{name}/{*path}", get(file))
        .with_state(Arc::new(Repositories { packages, metadata, store }))
}

/// Which repositories there are, for people.
async fn list(State(all): State<Arc<Repositories>>) -> Response<Body> {
    let mut reported = String::from("Packages for operating systems, from the cluster's bundle:\n");
    for (name, one) in &all.packages.repositories {
        let (manager, count) = (manager(one.family), counted(one.packages.len() as u64, "package"));
        let _ = write!(reported, "\n{}/{name}/\n    {count} for {manager}", all.packages.url);
        if one.metadata.contains_key(depot::HOW_TO) {
            let _ = write!(reported, "; how to use it: {}/{name}/{}", all.packages.url, depot::HOW_TO);
        }
        reported.push('\n');
    }
    text(reported)
}

/// What is in a repository, for people: one path a line.
async fn contents(State(all): State<Arc<Repositories>>, Path(name): Path<String>) -> Response<Body> {
    match all.packages.repositories.get(&name) {
        Some(one) => text(one.metadata.keys().chain(one.packages.keys()).map(|path| format!("{path}\n")).collect()),
        None => content::not_here(&name),
    }
}

async fn file(
    State(all): State<Arc<Repositories>>,
    Path((name, path)): Path<(String, String)>,
    request: Request<Body>,
) -> Response<Body> {
    let Some(one) = all.packages.repositories.get(&name) else { return content::not_here(&name) };
    // apt asks for `./InRelease` of a repository that its source calls `./`.
    let path = path.strip_prefix("./").unwrap_or(&path);
    match (one.metadata.get(path), one.packages.get(path)) {
        (Some(digest), _) => all.metadata.answer(request, digest, media_type(path)).await,
        (None, Some(digest)) => all.store.answer(request, digest, "application/octet-stream").await,
        (None, None) => content::not_here(path),
    }
}

const fn manager(family: Family) -> &'static str {
    match family {
        Family::Deb => "apt",
        Family::Rpm => "dnf",
    }
}

/// Metadata is text of one kind or another.
fn media_type(path: &str) -> &'static str {
    if path.ends_with(".xml") { "application/xml" } else { PLAIN }
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn text(reported: String) -> Response<Body> {
    (StatusCode::OK, [(header::CONTENT_TYPE, PLAIN)], reported).into_response()
}
