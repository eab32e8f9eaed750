//! Conditional requests (RFC 9110, section 13). The digest is the one validator: what is served has no date.

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};

/// What a client's conditions come to for what has this entity tag (with its quotes): an answer without content, or the request
/// without them. A Range stays in it where it holds for what is served now.
pub fn met(mut request: Request<Body>, tag: &str) -> Result<Request<Body>, StatusCode> {
    let of_content = matches!(*request.method(), Method::GET | Method::HEAD);
    let headers = request.headers_mut();
    if headers.contains_key(header::IF_MATCH) && !names(headers, header::IF_MATCH, |one| one == "*" || one == tag) {
        return Err(StatusCode::PRECONDITION_FAILED);
    }
    let same = |one: &str| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag;
    if of_content && names(headers, header::IF_NONE_MATCH, same) {
        return Err(StatusCode::NOT_MODIFIED);
    }
    // A date is no tag of kubexm, so that nobody puts the end of one file behind the beginning of another.
    if headers.get(header::IF_RANGE).is_some_and(|condition| condition.as_bytes() != tag.as_bytes()) {
        headers.remove(header::RANGE);
    }
    // What answers next knows a file's time, and would hold these against that.
    for name in [
        header::IF_MATCH,
        header::IF_NONE_MATCH,
        header::IF_RANGE,
        header::IF_MODIFIED_SINCE,
        header::IF_UNMODIFIED_SINCE,
    ] {
        headers.remove(name);
    }
    Ok(request)
}

/// Whether one of the entity tags of a header is one that is looked for. Ours hold no comma.
fn names(headers: &HeaderMap, name: header::HeaderName, wanted: impl Fn(&str) -> bool) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| wanted(one.trim()))
}
