//! What a server does with a request that is signed.

use std::collections::BTreeSet;

use md5::{Digest as _, Md5};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::state::{BUCKET, State, Upload};
use super::wire::{Request, Response, refusal};
use crate::encode::{decode, encode, hex};
use crate::xml;

/// The smallest part that is not the last one, in bytes.
const SMALLEST_PART: usize = 5 << 20;

pub(super) fn answer(request: &Request, state: &mut State) -> Response {
    let path = decode(&request.path().replace('+', "%2B")).unwrap_or_default();
    let (bucket, key) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    if bucket != BUCKET {
        return refusal(404, "NoSuchBucket", "The specified bucket does not exist");
    }
    let query =
        |name: &str| request.query().into_iter().find(|(known, _)| *known == name).and_then(|(_, value)| decode(value));
    let has = |name: &str| query(name).is_some();
    if let Some(md5) = request.header("content-md5")
        && md5 != crate::objects::content_md5(&request.body)
    {
        return refusal(400, "BadDigest", "The Content-MD5 you specified did not match what we received.");
    }
    match (request.method.as_str(), key) {
        ("GET", "") if has("uploads") => uploads(state, &query("prefix").unwrap_or_default()),
        ("GET", "") => list(state, &query("prefix").unwrap_or_default(), query("continuation-token")),
        ("PUT", key) if has("uploadId") => {
            let number = query("partNumber").and_then(|text| text.parse().ok()).unwrap_or(0);
            match state.uploads.get_mut(&query("uploadId").unwrap_or_default()) {
                Some(upload) if upload.key == key => {
                    upload.parts.insert(number, request.body.clone());
                    Response::new(200, Vec::new()).with("etag", tag(&request.body))
                }
                _ => refusal(404, "NoSuchUpload", "The specified upload does not exist."),
            }
        }
        ("PUT", key) => {
            state.objects.insert(key.to_owned(), request.body.clone());
            Response::new(200, Vec::new()).with("etag", tag(&request.body))
        }
        ("POST", key) if has("uploads") => {
            state.count += 1;
            let id = format!("upload-{}", state.count);
            let began = OffsetDateTime::now_utc().unix_timestamp();
            state.uploads.insert(id.clone(), Upload { key: key.to_owned(), began, parts: Default::default() });
            let body = format!(
                "<InitiateMultipartUploadResult><Bucket>{BUCKET}</Bucket><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
            );
            Response::new(200, body.into_bytes())
        }
        ("POST", key) if has("uploadId") => complete(request, state, (key, &query("uploadId").unwrap_or_default())),
        ("DELETE", _) if has("uploadId") => match state.uploads.remove(&query("uploadId").unwrap_or_default()) {
            Some(_) => Response::new(204, Vec::new()),
            None => refusal(404, "NoSuchUpload", "The specified upload does not exist."),
        },
        ("DELETE", key) => {
            state.objects.remove(key);
            Response::new(204, Vec::new())
        }
        ("GET", key) => read(request, state, key),
        _ => refusal(501, "NotImplemented", "nothing of the kind"),
    }
}

fn tag(bytes: &[u8]) -> String {
    format!("\"{}\"", hex(&Md5::digest(bytes)))
}

fn read(request: &Request, state: &State, key: &str) -> Response {
    let Some(bytes) = state.objects.get(key) else {
        return refusal(404, "NoSuchKey", "The specified key does not exist.");
    };
    let tag = tag(bytes);
    if request.header("if-match").is_some_and(|wanted| wanted != tag) {
        return refusal(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold");
    }
    let from = request.header("range").and_then(|text| text.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    match from {
        None => Response::new(200, bytes.clone()).with("etag", tag),
        Some(from) => {
            let range = format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len());
            Response::new(206, bytes[from..].to_vec()).with("etag", tag).with("content-range", range)
        }
    }
}

fn list(state: &State, prefix: &str, after: Option<String>) -> Response {
    let keys = state.objects.iter().filter(|(key, _)| key.starts_with(prefix));
    let rest: Vec<_> = keys.filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after)).collect();
    let mut body =
        format!("<ListBucketResult><Name>{BUCKET}</Name><IsTruncated>{}</IsTruncated>", rest.len() > state.page);
    for (key, bytes) in rest.iter().take(state.page) {
        let key = encode(key, true);
        body += &format!("<Contents><Key>{key}</Key><Size>{}</Size><ETag>&quot;x&quot;</ETag></Contents>", bytes.len());
    }
    if rest.len() > state.page {
        let last = xml::escaped(rest[state.page - 1].0);
        body += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
    }
    Response::new(200, (body + "</ListBucketResult>").into_bytes())
}

fn uploads(state: &State, prefix: &str) -> Response {
    let mut body = "<ListMultipartUploadsResult>".to_owned();
    for (id, upload) in state.uploads.iter().filter(|(_, upload)| upload.key.starts_with(prefix)) {
        let began = OffsetDateTime::from_unix_timestamp(upload.began).unwrap().format(&Rfc3339).unwrap();
        let key = encode(&upload.key, true);
        body += &format!("<Upload><Key>{key}</Key><UploadId>{id}</UploadId><Initiated>{began}</Initiated></Upload>");
    }
    Response::new(200, (body + "</ListMultipartUploadsResult>").into_bytes())
}

fn complete(request: &Request, state: &mut State, (key, id): (&str, &str)) -> Response {
    let Some(upload) = state.uploads.get(id).filter(|upload| upload.key == key) else {
        return refusal(404, "NoSuchUpload", "The specified upload does not exist.");
    };
    let named = xml::read(&request.body, "Part").map(|document| document.records).unwrap_or_default();
    let mut bytes = Vec::new();
    let mut numbers = BTreeSet::new();
    for part in &named {
        let number = part["PartNumber"].parse().unwrap();
        let Some(found) = upload.parts.get(&number).filter(|found| tag(found) == part["ETag"]) else {
            return refusal(400, "InvalidPart", "One or more of the specified parts could not be found.");
        };
        if found.len() < SMALLEST_PART && numbers.len() + 1 < named.len() {
            return refusal(
                400,
                "EntityTooSmall",
                "Your proposed upload is smaller than the minimum allowed object size.",
            );
        }
        numbers.insert(number);
        bytes.extend_from_slice(found);
    }
    if numbers.is_empty() || numbers.len() != upload.parts.len() {
        return refusal(400, "InvalidPart", "not all parts are named");
    }
    state.uploads.remove(id);
    state.objects.insert(key.to_owned(), bytes);
    let body =
        format!("<CompleteMultipartUploadResult><Key>{}</Key></CompleteMultipartUploadResult>", xml::escaped(key));
    Response::new(200, body.into_bytes())
}
