//! What is good is read, and read again without asking for more than is needed.

use kubexm_builder::origins::packages::{PackagesError, Trust, deb};
use kubexm_spec::{Digest, ExitCode};

use crate::packages::repository::{Builder, Repository, keys, names, now, served};
use crate::packages::server::Server;

#[tokio::test]
async fn a_second_run_sends_one_conditional_request() {
    let repository = Repository::default();
    let (server, builder) = (served(&repository).await, Builder::new());
    let suites = [repository.wanted(&[&server.url()])];
    let loaded = builder.load(&suites).await.unwrap();
    assert_eq!(names(&loaded), ["libc6", "socat"]);
    assert_eq!((&*loaded.pool.repos()[0].id, &loaded.pool.repos()[0].base), ("stable/main", &server.url()));
    let [snapshot] = &loaded.snapshots[..] else { panic!("one snapshot") };
    assert!(snapshot.signed && snapshot.date == Some(repository.made) && builder.store.contains(&snapshot.digest));
    let asked = server.answers();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[1].1.contains("/by-hash/SHA256/"), "by its hash, since the suite serves it so: {asked:?}");
    let again = builder.load(&suites).await.unwrap();
    assert_eq!(names(&again), names(&loaded));
    assert_eq!(server.answers(), [(304, "dists/stable/InRelease".to_owned())]);
    // Something new is noticed.
    let newer = Repository { packages: &["socat", "libc6", "chrony"], made: now() - 3600, ..repository };
    server.put(newer.files(&keys().0));
    assert_eq!(names(&builder.load(&suites).await.unwrap()), ["chrony", "libc6", "socat"]);
}

#[tokio::test]
async fn a_release_with_a_detached_signature_is_accepted() {
    let repository = Repository { clear_signed: false, by_hash: false, valid_until: None, ..Repository::default() };
    let (server, builder) = (served(&repository).await, Builder::new());
    let suites = [repository.wanted(&[&server.url()])];
    assert_eq!(names(&builder.load(&suites).await.unwrap()), ["libc6", "socat"]);
    server.answers();
    assert_eq!(names(&builder.load(&suites).await.unwrap()), ["libc6", "socat"]);
    let asked: Vec<_> = server.answers().into_iter().map(|(_, path)| path).collect();
    let wanted = ["InRelease", "Release", "Release.gpg"].map(|name| format!("dists/stable/{name}"));
    assert_eq!(asked, wanted, "the index is in the cache");
}

#[tokio::test]
async fn flat_repositories_and_several_suites_make_one_pool() {
    let flat = Repository { suite: "./", packages: &["kubelet"], ..Repository::default() };
    let below = Repository { suite: "deep/er/", packages: &["crictl"], ..Repository::default() };
    let security = Repository {
        suite: "stable-security",
        component: "updates/main",
        packages: &["socat"],
        ..Repository::default()
    };
    let plain = Repository::default();
    let server = Server::start().await;
    for repository in [&flat, &below, &plain] {
        server.put(repository.files(&keys().0));
    }
    // Debian's own suites call their component `updates/main` and serve it as `main`.
    server.put(security.files(&keys().0).into_iter().map(|(path, file)| (path.replace("updates/", ""), file)));
    let text = security.release().replace("updates/main/", "main/");
    let in_release = keys().0.clearsigned(&text, now()).unwrap();
    server.put([("dists/stable-security/InRelease".to_owned(), in_release.into_bytes())]);
    let url = server.url();
    let wanted = |repository: &Repository| repository.wanted(&[&url]);
    let security = deb::Suite { components: vec!["main".to_owned()], ..wanted(&security) };
    let loaded = Builder::new().load(&[wanted(&plain), security, wanted(&flat), wanted(&below)]).await.unwrap();
    let ids: Vec<_> = loaded.pool.repos().iter().map(|repo| &*repo.id).collect();
    assert_eq!(ids, ["stable/main", "stable-security/main", "./", "deep/er/"]);
    let reported: Vec<_> = loaded.pool.packages().map(|package| (&*package.name, package.repo.0)).collect();
    assert_eq!(reported.len(), 5, "{reported:?}");
    for expected in [("kubelet", 2), ("crictl", 3), ("libc6", 0), ("socat", 0), ("socat", 1)] {
        assert!(reported.contains(&expected), "{expected:?} of {reported:?}");
    }
}

#[tokio::test]
async fn an_index_that_is_replaced_between_two_requests_is_read_anew() {
    let repository = Repository { by_hash: false, ..Repository::default() };
    let (server, builder) = (served(&repository).await, Builder::new());
    let suites = [repository.wanted(&[&server.url()])];
    builder.load(&suites).await.unwrap();
    // The cache shows an InRelease of before; the mirror has the next index already, and no validator that would tell.
    let newer = Repository { packages: &["chrony"], made: now() - 3600, ..repository.clone() };
    let stale = Builder::new();
    server.put(newer.files(&keys().0).into_iter().filter(|(path, _)| path.ends_with(".gz")));
    let error = stale.load(&suites).await.unwrap_err();
    assert!(matches!(&error, PackagesError::Fetch { .. }), "{error}");
    assert_eq!(error.exit_code(), ExitCode::OriginMismatch);
    let tries = server.answers().into_iter().filter(|(_, path)| path.ends_with("InRelease")).count();
    assert_eq!(tries, 3, "once for the first builder, twice for the second");
    server.put(newer.files(&keys().0));
    assert_eq!(names(&stale.load(&suites).await.unwrap()), ["chrony"]);
}

#[tokio::test]
async fn the_next_address_is_asked_where_one_fails() {
    let repository = Repository::default();
    let (broken, server) = (served(&repository).await, served(&repository).await);
    broken.remove(|path| path.contains("binary-amd64"));
    let suites = [repository.wanted(&[&broken.url(), &server.url()])];
    let loaded = Builder::new().load(&suites).await.unwrap();
    assert_eq!(loaded.pool.repos()[0].base, server.url(), "packages are fetched from where the index is");
    let both = [repository.wanted(&[&broken.url(), &broken.url()])];
    let error = Builder::new().load(&both).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginMissing, "{error}");
}

#[tokio::test]
async fn offline_only_the_cache_is_read() {
    let repository = Repository::default();
    let (server, builder) = (served(&repository).await, Builder::new());
    let suites = [repository.wanted(&[&server.url()])];
    builder.load(&suites).await.unwrap();
    server.answers();
    let builder = builder.offline();
    assert_eq!(names(&builder.load(&suites).await.unwrap()), ["libc6", "socat"]);
    assert_eq!(server.answers(), [], "nobody was asked");
    let error = Builder::new().offline().load(&suites).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::NotCached, "{error}");
}

#[tokio::test]
async fn what_nobody_signs_is_read_only_where_the_user_says_so() {
    let repository = Repository { clear_signed: false, ..Repository::default() };
    let server = served(&repository).await;
    server.remove(|path| path.ends_with(".gpg"));
    let wanted = repository.wanted(&[&server.url()]);
    let error = Builder::new().load(std::slice::from_ref(&wanted)).await.unwrap_err();
    assert!(matches!(error, PackagesError::Unsigned { .. }), "{error}");
    let pinned = deb::Suite { trust: Trust::PinnedOnly, ..wanted };
    let loaded = Builder::new().load(std::slice::from_ref(&pinned)).await.unwrap();
    assert_eq!((names(&loaded), loaded.snapshots[0].signed), (vec!["libc6", "socat"], false));
    assert_eq!(loaded.snapshots[0].digest, Digest::of(repository.release()));
    // A signature that nobody here can check is no obstacle.
    let clear = Repository { clear_signed: true, ..repository };
    server.put(clear.files(&keys().1));
    assert_eq!(names(&Builder::new().load(&[pinned]).await.unwrap()), ["libc6", "socat"]);
}
