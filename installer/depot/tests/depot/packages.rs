//! Repositories of packages.

use kubexm_spec::Digest;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::serve::shaken;
use crate::site::{DEB, Fixture, start};

impl Fixture {
    /// Status, type and text.
    async fn fetch(&self, path: &str) -> (u16, String, String) {
        let answer = self.client.get(format!("{}{path}", self.base)).send().await.unwrap();
        let kind = answer.headers().get("content-type").map_or("", |value| value.to_str().unwrap()).to_owned();
        (answer.status().as_u16(), kind, answer.text().await.unwrap())
    }
}

#[tokio::test]
async fn metadata_and_packages_are_served_by_name_and_typed() {
    let depot = start().await;
    let plain = "text/plain; charset=utf-8";
    for (path, kind, text) in [
        ("debian-12-amd64/InRelease", plain, "signed"),
        ("rocky-9-amd64/repodata/repomd.xml", "application/xml", "<repomd/>"),
        ("rocky-9-amd64/a-1.rpm", "application/octet-stream", "one"),
        // As apt quotes it.
        ("debian-12-amd64/socat_1.7%2bb1%7edeb12%25x_amd64.deb", "application/octet-stream", "a package of Debian"),
    ] {
        assert_eq!(depot.fetch(&format!("/packages/{path}")).await, (200, kind.to_owned(), text.to_owned()), "{path}");
    }
}

/// A client that knows of URLs would ask for `InRelease`.
#[tokio::test]
async fn paths_with_a_dot_segment_are_served_as_apt_asks_for_them() {
    let depot = start().await;
    let mut stream = shaken(depot.address).await;
    let asked = "GET /packages/debian-12-amd64/./InRelease HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // How the connection ends is not the matter here.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nsigned"), "{answer}");
}

#[tokio::test]
async fn people_read_which_repositories_there_are_and_what_is_in_one() {
    let depot = start().await;
    let expected = "Packages for operating systems, from the cluster's bundle:\n\n\
        https://10.77.0.11:5443/packages/debian-12-amd64/\n    \
        1 package for apt; how to use it: https://10.77.0.11:5443/packages/debian-12-amd64/README\n\n\
        https://10.77.0.11:5443/packages/rocky-9-amd64/\n    2 packages for dnf\n";
    for path in ["/packages", "/packages/"] {
        assert_eq!(depot.fetch(path).await.2, expected);
    }
    let files = format!("InRelease\nPackages\nREADME\n{DEB}\n");
    for path in ["/packages/debian-12-amd64", "/packages/debian-12-amd64/"] {
        assert_eq!(depot.fetch(path).await.2, files);
    }
    assert_eq!(depot.fetch("/packages/debian-12-amd64/README").await.2, "do this");
}

#[tokio::test]
async fn packages_support_range_and_if_none_match() {
    let depot = start().await;
    for (path, bytes) in [("rocky-9-amd64/b-1.rpm", &b"another"[..]), ("debian-12-amd64/Packages", b"listed")] {
        let tag = format!("\"{}\"", Digest::of(bytes));
        let request = |method| depot.client.request(method, format!("{}/packages/{path}", depot.base));
        let part = request(reqwest::Method::GET).header("range", "bytes=2-").send().await.unwrap();
        assert_eq!((part.status().as_u16(), part.headers()["etag"].to_str().unwrap()), (206, tag.as_str()));
        assert_eq!(part.bytes().await.unwrap(), &bytes[2..]);
        let head = request(reqwest::Method::HEAD).send().await.unwrap();
        assert_eq!(
            (head.status().as_u16(), head.headers()["content-length"].to_str().unwrap()),
            (200, &*bytes.len().to_string())
        );
        assert_eq!(head.headers()["accept-ranges"], "bytes");
        let had = request(reqwest::Method::GET).header("if-none-match", &tag).send().await.unwrap();
        assert_eq!(had.status(), 304);
    }
}

#[tokio::test]
async fn other_paths_are_not_found_and_uploads_are_refused() {
    let depot = start().await;
    for path in [
        "debian-12-amd64/a-1.rpm",
        "debian-12-amd64/../../key",
        "debian-12-amd64/..%2f..%2fkey",
        "debian-12-amd64/%2e%2e/%2e%2e/key",
        "debian-12-amd64/repodata/repomd.xml",
        "debian-12-arm64/InRelease",
        "debian-12-arm64/",
        "..%2f",
    ] {
        assert_eq!(depot.fetch(&format!("/packages/{path}")).await.0, 404, "{path}");
    }
    // Metadata has no name but its own.
    assert_eq!(depot.fetch(&format!("/blobs/sha256/{}", Digest::of(b"signed").hex())).await.0, 404);
    let put = depot.client.put(format!("{}/packages/debian-12-amd64/InRelease", depot.base)).body("mine");
    assert_eq!(put.send().await.unwrap().status(), 405);
}
