//! What an attacker or a stale mirror serves is refused by name.

use kubexm_builder::origins::packages::PackagesError;
use kubexm_packages::trust::TrustError;
use kubexm_spec::ExitCode;

use crate::packages::repository::{Builder, DAY, Repository, keys, now, served};

async fn refused(repository: &Repository, change: impl Fn(&crate::packages::server::Server)) -> PackagesError {
    let server = served(repository).await;
    change(&server);
    let error = Builder::new().load(&[repository.wanted(&[&server.url()])]).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginMismatch, "{error}");
    let text = error.to_string();
    assert!(text.contains(repository.suite) && text.contains(&server.url()), "which suite, and where: {text}");
    error
}

fn signed(text: &str) -> Vec<u8> {
    keys().0.clearsigned(text, now()).unwrap().into_bytes()
}

#[tokio::test]
async fn a_text_that_was_changed_after_it_was_signed() {
    let repository = Repository::default();
    let changed = String::from_utf8(signed(&repository.release()))
        .unwrap()
        .replace("Acquire-By-Hash: yes", "Acquire-By-Hash: no");
    let file = ("dists/stable/InRelease".to_owned(), changed.into_bytes());
    let error = refused(&repository, |server| server.put([file.clone()])).await;
    assert!(matches!(error, PackagesError::Untrusted { source: TrustError::BadSignature { .. }, .. }), "{error}");
    let detached = Repository { clear_signed: false, ..repository };
    let other = detached.release().replace("Components: main", "Components: evil");
    let file = ("dists/stable/Release".to_owned(), other.into_bytes());
    let error = refused(&detached, |server| server.put([file.clone()])).await;
    assert!(matches!(error, PackagesError::Untrusted { source: TrustError::BadSignature { .. }, .. }), "{error}");
}

#[tokio::test]
async fn a_key_that_is_not_the_vendors() {
    let repository = Repository::default();
    let error = refused(&repository, |server| server.put(repository.files(&keys().1))).await;
    let unknown = |error: &PackagesError| {
        matches!(error, PackagesError::Untrusted { source: TrustError::NoSignatureOfAKnownKey { .. }, .. })
    };
    assert!(unknown(&error), "{error}");
}

#[tokio::test]
async fn an_index_that_is_not_the_one_that_was_signed() {
    let repository = Repository { by_hash: false, ..Repository::default() };
    let other = Repository { packages: &["trojan"], ..repository.clone() };
    let files = || other.files(&keys().0).into_iter().filter(|(path, _)| path.ends_with(".gz"));
    let error = refused(&repository, |server| server.put(files())).await;
    assert!(matches!(error, PackagesError::Fetch { .. }), "{error}");
}

#[tokio::test]
async fn an_expired_release_or_one_of_the_future() {
    let old = Repository { made: now() - 9 * DAY, valid_until: Some(now() - 1), ..Repository::default() };
    let error = refused(&old, |_| {}).await;
    assert!(matches!(error, PackagesError::Expired { until, .. } if until == now() - 1), "{error}");
    let early = Repository { made: now() + DAY, valid_until: None, ..Repository::default() };
    let error = refused(&early, |_| {}).await;
    assert!(matches!(error, PackagesError::NotYet { .. }), "{error}");
}

#[tokio::test]
async fn an_older_state_than_an_earlier_build_has_read() {
    let repository = Repository { valid_until: None, ..Repository::default() };
    let (server, builder) = (served(&repository).await, Builder::new());
    let suites = [repository.wanted(&[&server.url()])];
    builder.load(&suites).await.unwrap();
    let older = Repository { packages: &["vulnerable"], made: repository.made - DAY, ..repository.clone() };
    server.put(older.files(&keys().0));
    for _ in 0..2 {
        let error = builder.load(&suites).await.unwrap_err();
        let reported = matches!(error, PackagesError::Replayed { date, before, .. } if (date, before) == (older.made, repository.made));
        assert!(reported, "{error}");
    }
    // Somebody who never saw the newer state cannot know.
    assert!(Builder::new().load(&suites).await.is_ok());
    server.put(repository.files(&keys().0));
    assert!(builder.load(&suites).await.is_ok(), "what was refused did not change the cache");
}

#[tokio::test]
async fn another_suite_of_the_same_vendor() {
    let repository = Repository::default();
    let other = Repository { suite: "oldoldstable", ..repository.clone() };
    let file = || ("dists/stable/InRelease".to_owned(), signed(&other.release()));
    let error = refused(&repository, |server| server.put([file()])).await;
    assert!(matches!(&error, PackagesError::SuiteMismatch { found, .. } if found == "oldoldstable"), "{error}");
}

#[tokio::test]
async fn a_page_in_the_place_of_a_release() {
    let repository = Repository::default();
    let page = || ("dists/stable/InRelease".to_owned(), b"<html>log in</html>".to_vec());
    let error = refused(&repository, |server| server.put([page()])).await;
    assert!(matches!(error, PackagesError::Untrusted { .. }), "{error}");
}

#[tokio::test]
async fn all_suites_that_fail_are_reported_at_once() {
    let (one, two) = (Repository::default(), Repository { suite: "stable-updates", ..Repository::default() });
    let server = crate::packages::server::Server::start().await;
    let url = server.url();
    let error = Builder::new().load(&[one.wanted(&[&url]), two.wanted(&[&url])]).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("repository stable:") && text.contains("repository stable-updates:"), "{text}");
    assert_eq!(error.exit_code(), ExitCode::OriginMissing);
}
