//! Files of a folder: compared with size and digest, and nothing outside of it.

use std::os::unix::fs::symlink;
use std::path::Path;

use kubexm_spec::{Digest, ExitCode};
use kubexm_transport::{Answer, FileCandidate, TransportError, Validators, Want};

use crate::server::{Reply, Server};
use crate::support::{bytes, client, options, plain, provider, quiet, store, want};

fn medium(dir: &Path) -> FileCandidate {
    std::fs::create_dir_all(dir.join("my iso/Packages")).unwrap();
    FileCandidate::folder(&dir.join("my iso")).unwrap()
}

#[tokio::test]
async fn a_file_of_a_medium_comes_into_the_store_by_its_digest() {
    let (dir, store) = store();
    let (medium, body) = (medium(dir.path()), bytes(1, 300_000));
    std::fs::write(dir.path().join("my iso/Packages/a+b_1%3a2.deb"), &body).unwrap();
    let at = medium.below("Packages/a+b_1%3a2.deb");
    let fetched = client().fetch(std::slice::from_ref(&at), &want(&body), &store, &quiet).await.unwrap();
    assert_eq!((fetched.digest, fetched.size), (Digest::of(&body), 300_000));
    assert_eq!(store.read(&fetched.digest, 1 << 20).unwrap(), body);
    assert_eq!(client().head(&at).await.unwrap().size, Some(300_000));
    assert_eq!(client().get_small(&at, 300_000).await.unwrap(), body);
    let fresh = client().get_if_changed(&at, 300_000, &Validators::default()).await.unwrap();
    assert_eq!(fresh, Answer::Fresh { body, validators: Validators::default() });
    assert!(at.is_there() && !medium.below("Packages/c").is_there());
}

#[tokio::test]
async fn a_file_that_an_address_escapes_is_found_by_its_name() {
    let (dir, store) = store();
    let (medium, body) = (medium(dir.path()), bytes(2, 100));
    std::fs::write(dir.path().join("my iso/Packages/libstdc++6.rpm"), &body).unwrap();
    let at = medium.below("Packages/libstdc%2b%2B6.rpm");
    client().fetch(&[at], &want(&body), &store, &quiet).await.unwrap();
}

#[tokio::test]
async fn other_bytes_or_another_size_are_refused_and_the_next_place_is_asked() {
    let (dir, store) = store();
    let (medium, body) = (medium(dir.path()), bytes(3, 5_000));
    let served = body.clone();
    let server = Server::start(move |_| Reply::new(200, served.clone())).await;
    for wrong in [bytes(4, 5_000), bytes(4, 4_999)] {
        std::fs::write(dir.path().join("my iso/x"), &wrong).unwrap();
        // Nor is it news that it is not where another kind of media would have it.
        let places = [medium.below("x"), medium.below("y/x")];
        let error = client().fetch(&places, &want(&body), &store, &quiet).await.unwrap_err();
        let TransportError::AllFailed { tried, .. } = &error else { panic!("{error}") };
        assert_eq!((tried.len(), error.exit_code()), (1, ExitCode::OriginMismatch), "{error}");
        assert!(matches!(tried[0], TransportError::Mismatch { .. } | TransportError::WrongSize { .. }), "{error}");
        assert!(error.to_string().contains("my%20iso/x"), "{error}");
        assert!(!store.contains(&Digest::of(&wrong)) && !store.contains(&Digest::of(&body)));
    }
    let both = [medium.below("x"), medium.below("gone"), plain(server.url("x"))];
    let fetched = client().fetch(&both, &want(&body), &store, &quiet).await.unwrap();
    assert_eq!(fetched.url, Some(server.url("x")));
}

#[tokio::test]
async fn nothing_outside_the_folder_is_read_by_dots_or_by_links() {
    let (dir, store) = store();
    let medium = medium(dir.path());
    std::fs::write(dir.path().join("secret"), "outside").unwrap();
    symlink(dir.path().join("secret"), dir.path().join("my iso/link")).unwrap();
    symlink("../..", dir.path().join("my iso/Packages/up")).unwrap();
    std::fs::write(dir.path().join("my iso/Packages/real"), "inside").unwrap();
    symlink("Packages/real", dir.path().join("my iso/good")).unwrap();
    let client = client();
    for path in ["link", "Packages/up/secret", "../secret", "Packages/%2e%2e/%2e%2e/secret", "Packages/../../secret"] {
        let error = client.get_small(&medium.below(path), 100).await.unwrap_err();
        assert!(matches!(error, TransportError::Outside { .. }), "{path}: {error}");
        let wanted = Want::default();
        client.fetch(&[medium.below(path)], &wanted, &store, &quiet).await.unwrap_err();
        assert!(!medium.below(path).is_there(), "{path}");
    }
    assert_eq!(client.get_small(&medium.below("good"), 100).await.unwrap(), b"inside", "a link within is one");
    // A neighbour whose name begins alike is no part of it.
    let neighbour = FileCandidate { url: format!("{}2/x", medium.url), ..medium.clone() };
    assert!(matches!(client.get_small(&neighbour, 100).await.unwrap_err(), TransportError::Setting { .. }));
}

#[tokio::test]
async fn what_an_index_names_by_itself_is_no_file_of_this_machine() {
    let (dir, store) = store();
    std::fs::write(dir.path().join("x"), "x").unwrap();
    let url = format!("file://{}", dir.path().join("x").display());
    let error = client().get_small(&FileCandidate::new(&url), 10).await.unwrap_err();
    assert!(matches!(error, TransportError::Setting { .. }), "{error}");
    let wanted = Want::default();
    client().fetch(&[plain(url)], &wanted, &store, &quiet).await.unwrap_err();
    assert!(FileCandidate::folder(Path::new("/")).is_err() && FileCandidate::folder(Path::new("relative")).is_err());
    assert!(FileCandidate::folder_at("file://host/mnt").is_err());
}

#[tokio::test]
async fn a_pipe_a_folder_and_a_medium_that_is_not_mounted_are_reported_and_not_waited_for() {
    let (dir, _store) = store();
    let medium = medium(dir.path());
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("my iso/pipe"), rustix::fs::Mode::from(0o600)).unwrap();
    for path in ["pipe", "Packages", "", "nothing/here"] {
        let error = client().get_small(&medium.below(path), 10).await.unwrap_err();
        assert!(matches!(error, TransportError::Missing { .. }), "{path}: {error}");
    }
    let absent = FileCandidate::folder(&dir.path().join("absent")).unwrap();
    let error = client().get_small(&absent.below("x"), 10).await.unwrap_err();
    assert!(error.to_string().contains("mount the medium there"), "{error}");
    std::fs::write(dir.path().join("my iso/large"), vec![0; 11]).unwrap();
    let error = client().get_small(&medium.below("large"), 10).await.unwrap_err();
    assert!(matches!(error, TransportError::NotTheFile { .. }), "{error}");
}

#[tokio::test]
async fn offline_only_the_cache_is_asked() {
    let (dir, store) = store();
    let (medium, body) = (medium(dir.path()), bytes(5, 100));
    std::fs::write(dir.path().join("my iso/x"), &body).unwrap();
    provider();
    let offline = kubexm_transport::HttpOptions { offline: true, ..options() };
    let offline = kubexm_transport::HttpClient::new(offline).unwrap();
    let at = medium.below("x");
    let error = offline.fetch(std::slice::from_ref(&at), &want(&body), &store, &quiet).await.unwrap_err();
    assert!(matches!(error, TransportError::NotCached { .. }), "{error}");
    assert!(matches!(offline.get_small(&at, 100).await.unwrap_err(), TransportError::NotCached { .. }));
    client().fetch(std::slice::from_ref(&at), &want(&body), &store, &quiet).await.unwrap();
    offline.fetch(&[at], &want(&body), &store, &quiet).await.unwrap();
}
