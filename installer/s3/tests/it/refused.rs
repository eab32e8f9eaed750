//! What a server refuses, and what is said of it: what to do, and no secret.

use std::sync::Arc;

use kubexm_s3::fake::{Fault, S3Server, SECRET_KEY, What};
use kubexm_s3::{Addressing, Endpoint, S3Address, S3Client, S3Error, S3Options, Unwatched};
use kubexm_spec::{ExitCode, ExitError as _};
use rustls::ServerConfig;

use crate::common::{address, client, downloaded, options};

async fn listed(options: S3Options) -> S3Error {
    S3Client::new(options, &address()).unwrap().list("", &Unwatched).await.unwrap_err()
}

#[tokio::test]
async fn a_wrong_key_a_wrong_secret_and_a_wrong_region_are_told_apart() {
    let server = S3Server::start();
    let mut wrong = options(&server);
    wrong.credentials.access_key = "AKIDOTHER".to_owned();
    let error = listed(wrong).await;
    assert!(matches!(error, S3Error::UnknownKey { .. }), "{error}");
    assert_eq!(error.exit_code(), ExitCode::OriginDenied);
    let mut wrong = options(&server);
    wrong.credentials.secret_key = "hunter2".to_owned().into();
    let error = listed(wrong).await;
    assert!(matches!(error, S3Error::Signature { .. }) && !error.to_string().contains("hunter2"), "{error}");
    let wrong = S3Options { region: "us-east-1".to_owned(), ..options(&server) };
    let error = listed(wrong).await;
    assert!(error.to_string().contains("not in region us-east-1 but in lab-1: give --s3-region lab-1"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Config);
    assert_eq!(server.state().asked.len(), 3, "none of them is worth another try");
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_named_with_the_difference() {
    let server = S3Server::start();
    server.state().ahead = 3600;
    let error = listed(options(&server)).await.to_string();
    assert!(error.contains("60 minutes behind it; set the clock"), "{error}");
}

#[tokio::test]
async fn a_bucket_and_an_object_that_are_not_there_are_named() {
    let server = S3Server::start();
    let other = S3Address::parse("s3://other/x").unwrap();
    let error = S3Client::new(options(&server), &other).unwrap().list("x/", &Unwatched).await.unwrap_err();
    assert!(error.to_string().contains("has no bucket other; make it there"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::OriginMissing);
    let error = downloaded(&client(&server), "sites/x", 1, &Unwatched).await.unwrap_err();
    assert_eq!(error.to_string(), "read s3://backups/sites/x: it is not there");
}

#[tokio::test]
async fn a_refusal_names_the_permission_and_repeats_no_secret_that_the_server_writes_into_it() {
    let server = S3Server::start();
    let mut options = options(&server);
    options.credentials.session_token = Some("hunter2-token".to_owned().into());
    let client = S3Client::new(options, &address()).unwrap();
    let denied = |method, word| {
        let message = format!("no\u{1b}[31m\n for hunter2-token and {SECRET_KEY} {}", "x".repeat(10_000));
        Fault::of(method, word, What::Refused(403, "AccessDenied", message.replace('\u{1b}', "&#x1b;")))
    };
    server.fail(denied("PUT", "/x"));
    server.fail(denied("GET", "/x"));
    server.fail(denied("GET", "list-type"));
    server.fail(denied("GET", "uploads"));
    server.fail(denied("DELETE", "/x"));
    let errors = [
        ("s3:PutObject", client.put("x", "a".into(), &Unwatched).await.unwrap_err()),
        ("s3:GetObject", downloaded(&client, "x", 1, &Unwatched).await.unwrap_err()),
        ("s3:ListBucket", client.list("", &Unwatched).await.unwrap_err()),
        ("s3:ListBucketMultipartUploads", client.open_uploads("", &Unwatched).await.unwrap_err()),
        ("s3:DeleteObject", client.delete("x", &Unwatched).await.unwrap_err()),
    ];
    for (permission, error) in errors {
        let text = error.to_string();
        assert!(text.contains(&format!("the permission {permission} for ")), "{text}");
        assert!(!text.contains("hunter2") && !text.contains(SECRET_KEY), "{text}");
        assert!(text.len() < 700 && !text.contains(['\n', '\u{1b}']), "{text:?}");
    }
}

#[tokio::test]
async fn what_is_no_xml_is_an_error_of_one_short_line_and_repeats_no_secret_that_the_server_writes_into_it() {
    let server = S3Server::start();
    let mut options = options(&server);
    options.credentials.session_token = Some("hunter2-token".to_owned().into());
    let client = S3Client::new(options, &address()).unwrap();
    let tag = format!("x\nbackup.json is signed by ops\nhunter2-token {SECRET_KEY} {}", "y".repeat(10_000));
    server.fail(Fault::of("GET", "list-type", What::Text(format!("<ListBucketResult></{tag}>"))));
    let error = client.list("", &Unwatched).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, S3Error::Answer { .. }) && text.contains("signed by ops"), "{text}");
    assert!(!text.contains("hunter2") && !text.contains(SECRET_KEY), "{text}");
    assert!(text.len() < 700 && !text.contains('\n'), "{text:?}");
}

/// A server with a certificate that is its own authority.
fn tls_server(name: &str) -> (S3Server, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certified = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let chain = vec![certified.cert.der().clone()];
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    (S3Server::start_tls(Arc::new(config)), certified.cert.pem())
}

#[tokio::test]
async fn a_certificate_that_nobody_known_has_signed_is_refused_and_taken_with_its_ca() {
    let (server, pem) = tls_server("127.0.0.1");
    let error = listed(options(&server)).await;
    assert!(matches!(error, S3Error::Certificate { .. }), "{error}");
    assert!(error.to_string().contains("--s3-ca-file"), "{error}");
    let trusted = options(&server).with_authorities("ca.crt", pem.as_bytes()).unwrap();
    S3Client::new(trusted, &address()).unwrap().list("", &Unwatched).await.unwrap();
    // One of another name.
    let (server, pem) = tls_server("minio.test");
    let error = listed(options(&server).with_authorities("ca.crt", pem.as_bytes()).unwrap()).await;
    assert!(matches!(error, S3Error::Certificate { .. }), "{error}");
    assert!(options(&server).with_authorities("ca.crt", b"hello").unwrap_err().to_string().contains("ca.crt"));
}

#[tokio::test]
async fn a_port_without_tls_and_one_where_nobody_listens_are_named() {
    let server = S3Server::start();
    let mut wrong = options(&server);
    let address = server.endpoint().replace("http:", "https:");
    wrong.endpoint = Endpoint::parse(&address, Addressing::Path, false).unwrap();
    let error = listed(wrong).await;
    assert!(matches!(error, S3Error::NotTls { .. }), "{error}");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut wrong = options(&server);
    wrong.endpoint = Endpoint::parse(&format!("http://{closed}"), Addressing::Path, true).unwrap();
    let error = listed(wrong).await;
    assert!(matches!(error, S3Error::Down { .. }) && error.to_string().contains("refused"), "{error}");
}
