//! Package files come into the store by size and sha256.

use kubexm_builder::origins::packages::{File, fetch};
use kubexm_spec::{Digest, ExitCode};
use kubexm_transport::FileCandidate;

use crate::repository::{Builder, content};
use crate::server::Server;

fn file(name: &str, bases: &[&str]) -> File {
    let candidate = |base: &&str| FileCandidate {
        plain_http_allowed: true,
        ..FileCandidate::new(format!("{base}/pool/{name}.deb"))
    };
    File {
        name: format!("{name} 1.0 amd64"),
        digest: Digest::of(content(name)),
        size: content(name).len() as u64,
        candidates: bases.iter().map(candidate).collect(),
    }
}

#[tokio::test]
async fn packages_are_fetched_once_and_from_whoever_has_them() {
    let (empty, server, builder) = (Server::start().await, Server::start().await, Builder::new());
    server.put(["a", "b"].map(|name| (format!("pool/{name}.deb"), content(name).into_bytes())));
    let bases = [&*empty.url(), &*server.url()];
    let files = [file("a", &bases), file("b", &bases)];
    fetch(&files, &builder.http, &builder.store, 4, &|_| {}).await.unwrap();
    assert!(files.iter().all(|file| builder.store.holds(&file.digest, file.size).unwrap()));
    server.answers();
    fetch(&files, &builder.http, &builder.store, 4, &|_| {}).await.unwrap();
    assert_eq!(server.answers(), [], "they are in the store");
}

#[tokio::test]
async fn every_package_that_is_wrong_or_missing_is_told() {
    let (server, builder) = (Server::start().await, Builder::new());
    server.put([
        ("pool/good.deb".to_owned(), content("good").into_bytes()),
        ("pool/bad.deb".to_owned(), content("dab").into_bytes()),
    ]);
    let base = server.url();
    let files = ["good", "bad", "gone"].map(|name| file(name, &[&base]));
    let error = fetch(&files, &builder.http, &builder.store, 4, &|_| {}).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("bad 1.0 amd64") && text.contains("gone 1.0 amd64") && !text.contains("good"), "{text}");
    assert_eq!(error.exit_code(), ExitCode::OriginMissing);
    let here = files.map(|file| builder.store.contains(&file.digest));
    assert_eq!(here, [true, false, false]);
}
