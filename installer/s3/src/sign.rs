//! Signatures of requests: AWS Signature Version 4 in the Authorization header ("Authenticating Requests (AWS Signature Version 4)",
//! Amazon S3 API Reference). The whole body is signed, so that nobody on the way can change it.

use kubexm_spec::Digest;
use ring::hmac;
use time::OffsetDateTime;

use crate::credentials::S3Credentials;
use crate::encode::hex;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What is signed of a request.
pub struct ToSign<'a> {
    /// `GET`.
    pub method: &'a str,
    /// As it is sent: encoded.
    pub path: &'a str,
    /// Names and values, encoded, in any order.
    pub query: &'a [(String, String)],
    /// Lower-case names, with `host`; every one of them is signed.
    pub headers: &'a [(String, String)],
    /// SHA-256 of the body, in hexadecimal digits.
    pub payload: &'a str,
    /// When.
    pub time: OffsetDateTime,
}

/// The value of `x-amz-date`.
pub fn amz_date(time: OffsetDateTime) -> String {
    let (hour, minute, second) = time.to_hms();
    format!("{}T{hour:02}{minute:02}{second:02}Z", date(time))
}

fn date(time: OffsetDateTime) -> String {
    format!("{:04}{:02}{:02}", time.year(), u8::from(time.month()), time.day())
}

/// The value of the header `authorization`.
pub fn authorization(request: &ToSign<'_>, credentials: &S3Credentials, region: &str) -> String {
    let mut headers: Vec<&(String, String)> = request.headers.iter().collect();
    headers.sort();
    let names = headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", one_blank(value))).collect();
    let mut query: Vec<&(String, String)> = request.query.iter().collect();
    query.sort();
    let query = query.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
    let ToSign { method, path, payload, time, .. } = request;
    let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}");
    let scope = format!("{}/{region}/s3/aws4_request", date(*time));
    let text = format!("{ALGORITHM}\n{}\n{scope}\n{}", amz_date(*time), Digest::of(canonical).hex());
    let first = hmac::Key::new(hmac::HMAC_SHA256, format!("AWS4{}", credentials.secret_key.as_str()).as_bytes());
    let next =
        |key: &hmac::Key, text: &str| hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(key, text.as_bytes()).as_ref());
    let key = next(&next(&next(&next(&first, &date(*time)), region), "s3"), "aws4_request");
    let signature = hex(hmac::sign(&key, text.as_bytes()).as_ref());
    format!("{ALGORITHM} Credential={}/{scope},SignedHeaders={names},Signature={signature}", credentials.access_key)
}

/// Without blanks at the ends, and one where there are several.
fn one_blank(value: &str) -> String {
    value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// Amazon's examples ("Signature Calculations for the Authorization Header: Transferring Payload in a Single Chunk").
    fn signature(
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        payload: &str,
    ) -> (String, String) {
        let secret = Zeroizing::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned());
        let credentials = S3Credentials::new("AKIAIOSFODNN7EXAMPLE".to_owned(), secret, None).unwrap();
        let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        let mut headers = owned(headers);
        headers.extend(owned(&[
            ("host", "examplebucket.s3.amazonaws.com"),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-content-sha256", payload),
        ]));
        let time = OffsetDateTime::from_unix_timestamp(1_369_353_600).unwrap();
        assert_eq!(amz_date(time), "20130524T000000Z");
        let query = owned(query);
        let request = ToSign { method, path, query: &query, headers: &headers, payload, time };
        let value = authorization(&request, &credentials, "us-east-1");
        let (rest, signature) = value.split_once(",Signature=").unwrap();
        (rest.split_once("SignedHeaders=").unwrap().1.to_owned(), signature.to_owned())
    }

    #[test]
    fn signatures_are_those_of_amazons_examples() {
        let (names, found) = signature("GET", "/test.txt", &[], &[("range", "bytes=0-9")], EMPTY);
        assert_eq!(names, "host;range;x-amz-content-sha256;x-amz-date");
        assert_eq!(found, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
        let payload = Digest::of("Welcome to Amazon S3.").hex();
        let headers = [("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
        let (_, found) = signature("PUT", "/test%24file.text", &[], &headers, &payload);
        assert_eq!(found, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
        let (_, found) = signature("GET", "/", &[("lifecycle", "")], &[], EMPTY);
        assert_eq!(found, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
        let (_, found) = signature("GET", "/", &[("prefix", "J"), ("max-keys", "2")], &[], EMPTY);
        assert_eq!(found, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    }
}
