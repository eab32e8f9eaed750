//! Whether a request is signed: computed from what came over the wire, and by nothing of the client's.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use time::{OffsetDateTime, PrimitiveDateTime};

use super::state::{ACCESS_KEY, REGION, SECRET_KEY, State};
use super::wire::{Request, Response, refusal};

/// As Amazon's: a quarter of an hour.
const SKEW: i64 = 900;

/// The refusal of a request that is not signed as it must be.
pub(super) fn check(request: &Request, state: &State) -> Result<(), Response> {
    let denied = |why: &str| refusal(403, "AccessDenied", why);
    let text = request.header("authorization").ok_or_else(|| denied("nothing is signed"))?;
    let rest = text.strip_prefix("AWS4-HMAC-SHA256 ").ok_or_else(|| denied("another algorithm"))?;
    let field = |name: &str| {
        rest.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
    };
    let scope: Vec<&str> = field("Credential").split('/').collect();
    let [key, day, region, "s3", "aws4_request"] = scope[..] else { return Err(denied("another scope")) };
    if key != ACCESS_KEY {
        return Err(refusal(
            403,
            "InvalidAccessKeyId",
            "The AWS Access Key Id you provided does not exist in our records.",
        ));
    }
    if region != REGION {
        let refused = refusal(400, "AuthorizationHeaderMalformed", "the region is wrong");
        return Err(refused.with("x-amz-bucket-region", REGION));
    }
    let date = request.header("x-amz-date").unwrap_or_default();
    let format = time::format_description::parse_borrowed::<2>("[year][month][day]T[hour][minute][second]Z").unwrap();
    let sent = PrimitiveDateTime::parse(date, &format).map_err(|_| denied("no date"))?.assume_utc();
    let now = OffsetDateTime::now_utc().unix_timestamp() + state.ahead;
    if (sent.unix_timestamp() - now).abs() > SKEW {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(u64::try_from(now).unwrap());
        let refused = refusal(
            403,
            "RequestTimeTooSkewed",
            "The difference between the request time and the server's time is too large.",
        );
        return Err(refused.with("date", httpdate::fmt_http_date(time)));
    }
    if !date.starts_with(day) {
        return Err(denied("the scope is of another day"));
    }
    let names: Vec<&str> = field("SignedHeaders").split(';').collect();
    if ["host", "x-amz-content-sha256", "x-amz-date"].iter().any(|name| !names.contains(name)) {
        return Err(denied("a header is not signed"));
    }
    // Whatever else the server goes by is signed too.
    let amz = request
        .headers
        .iter()
        .filter(|(name, _)| name.starts_with("x-amz-") || name == "range" || name == "content-md5");
    if amz.into_iter().any(|(name, _)| !names.contains(&name.as_str())) {
        return Err(denied("a header is not signed"));
    }
    let payload: String = Sha256::digest(&request.body).iter().map(|byte| format!("{byte:02x}")).collect();
    if request.header("x-amz-content-sha256") != Some(&payload) {
        return Err(refusal(
            400,
            "XAmzContentSHA256Mismatch",
            "The provided 'x-amz-content-sha256' header does not match.",
        ));
    }
    if request.header("x-amz-security-token") != state.token.as_deref() {
        return Err(refusal(400, "InvalidToken", "The provided token is malformed or otherwise invalid."));
    }
    let mut canonical = format!("{}\n{}\n", request.method, request.path());
    let mut query: Vec<String> = request.query().iter().map(|(name, value)| format!("{name}={value}")).collect();
    query.sort();
    canonical += &query.join("&");
    canonical.push('\n');
    for name in &names {
        canonical += &format!("{name}:{}\n", request.header(name).unwrap_or_default());
    }
    canonical += &format!("\n{}\n{payload}", names.join(";"));
    let hashed: String = Sha256::digest(canonical.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{day}/{region}/s3/aws4_request\n{hashed}");
    let mut key = format!("AWS4{SECRET_KEY}").into_bytes();
    for text in [day, region, "s3", "aws4_request", &to_sign] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        mac.update(text.as_bytes());
        key = mac.finalize().into_bytes().to_vec();
    }
    let wanted: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    match field("Signature") == wanted {
        true => Ok(()),
        // With what real servers add, which nobody is to show.
        false => Err(refusal(
            403,
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided.",
        )),
    }
}
