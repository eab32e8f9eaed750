//! Images, blobs and files, and what a bad client can do.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use kubexm_spec::{Digest, depot};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::site::{put, start, start_with};

/// Longer than any machine is busy.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_sparse_index_is_served_byte_for_byte_by_tag_and_by_digest() {
    let depot = start().await;
    for reference in ["3.10.1".to_owned(), depot.index.to_string()] {
        let answer = depot
            .client
            .get(format!("{}/v2/registry.k8s.io/pause/manifests/{reference}?ns=registry.k8s.io", depot.base))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/vnd.oci.image.index.v1+json");
        assert_eq!(answer.headers()["docker-content-digest"], depot.index.to_string().as_str());
        assert_eq!(Digest::of(answer.bytes().await.unwrap()), depot.index);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_nodes_fetch_at_once_and_each_gets_every_byte() {
    let depot = start().await;
    let large: Vec<u8> = (0..4_000_000_u32).flat_map(|n| (n % 251).to_le_bytes()).collect();
    // The layer's own name: the depot hashes nothing, it only reads.
    std::fs::write(depot.folder.path().join("store/blobs/sha256").join(depot.layer.hex()), &large).unwrap();
    let url = format!("{}/blobs/sha256/{}", depot.base, depot.layer.hex());
    let clients = (0..20).map(|_| {
        let (client, url) = (depot.client.clone(), url.clone());
        tokio::spawn(async move { client.get(url).send().await.unwrap().bytes().await.unwrap() })
    });
    for fetched in clients.collect::<Vec<_>>() {
        assert_eq!(Digest::of(fetched.await.unwrap()), Digest::of(&large));
    }
}

/// A pod has its node's address: connections that it opens and says nothing on must not keep the node's runtime out.
#[tokio::test(flavor = "multi_thread")]
async fn who_opens_connections_and_says_nothing_keeps_nobody_out() {
    let depot = start_with(|running| running.limits(8, 4)).await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(tokio::net::TcpStream::connect(depot.address).await.unwrap());
    }
    let url = format!("{}/v2/", depot.base);
    assert_eq!(depot.client.get(&url).send().await.unwrap().status(), 200, "one of one address ends for the next");
    // Those of other addresses take all that are left.
    for last in 2..6 {
        for _ in 0..4 {
            let other = tokio::net::TcpSocket::new_v4().unwrap();
            other.bind(format!("127.0.0.{last}:0").parse().unwrap()).unwrap();
            silent.push(other.connect(depot.address).await.unwrap());
        }
    }
    let ca = reqwest::Certificate::from_pem(&std::fs::read(depot.folder.path().join("crt")).unwrap()).unwrap();
    let fresh = reqwest::Client::builder().tls_certs_only([ca]).no_proxy().build().unwrap();
    let answer = tokio::time::timeout(LONG, fresh.get(&url).send()).await;
    assert_eq!(answer.expect("in time").unwrap().status(), 200, "one of all ends for the next");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_connections_all_answer_is_turned_away_and_another_address_is_served() {
    let depot = start_with(|running| running.limits(8, 2)).await;
    std::fs::write(depot.folder.path().join("store/blobs/sha256").join(depot.layer.hex()), vec![7; 64 << 20]).unwrap();
    let mut greedy = Vec::new();
    for _ in 0..2 {
        let mut stream = shaken(depot.address).await;
        let asked = format!("GET /blobs/sha256/{} HTTP/1.1\r\nHost: localhost\r\n\r\n", depot.layer.hex());
        stream.write_all(asked.as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 1]).await.unwrap();
        greedy.push(stream);
    }
    let mut third = tokio::net::TcpStream::connect(depot.address).await.unwrap();
    let mut byte = [0];
    let closed = tokio::time::timeout(LONG, third.read(&mut byte)).await.unwrap();
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    let other = tokio::net::TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = other.connect(depot.address).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(300), other.read(&mut byte)).await;
    assert!(waits.is_err(), "the depot waits for the other client's handshake: {waits:?}");
    greedy[0].read_exact(&mut vec![0; 1 << 20]).await.expect("it is still answered");
    // One of the first goes, and the address may come again.
    drop(greedy.pop());
    let url = format!("{}/v2/", depot.base);
    while depot.client.get(&url).send().await.is_err() {}
}

#[tokio::test]
async fn a_range_of_a_blob_can_be_fetched_so_downloads_resume() {
    let depot = start().await;
    for path in [
        format!("/v2/registry.k8s.io/pause/blobs/{}", depot.layer),
        format!("/blobs/sha256/{}", depot.layer.hex()),
        "/files/kubeadm".to_owned(),
    ] {
        let answer =
            depot.client.get(format!("{}{path}", depot.base)).header("range", "bytes=6-").send().await.unwrap();
        assert_eq!(answer.status(), 206, "{path}");
        assert_eq!(answer.headers()["content-range"], "bytes 6-10/11");
        assert_eq!(answer.bytes().await.unwrap().as_ref(), b"bytes");
    }
}

#[tokio::test]
async fn what_is_not_named_is_not_served_and_nothing_can_be_written() {
    let depot = start().await;
    let stray = Digest::of(b"a blob that no repository names");
    for path in [
        format!("/v2/registry.k8s.io/pause/blobs/{stray}"),
        format!("/v2/docker.io/pause/manifests/{}", depot.index),
        format!("/blobs/sha256/{}", stray.hex()),
        "/blobs/sha256/..%2f..%2f..%2fkey".to_owned(),
        "/files/..%2fkey".to_owned(),
        "/v2/registry.k8s.io/pause/manifests/latest".to_owned(),
    ] {
        assert_eq!(depot.client.get(format!("{}{path}", depot.base)).send().await.unwrap().status(), 404, "{path}");
    }
    let push =
        depot.client.post(format!("{}/v2/registry.k8s.io/pause/blobs/uploads/", depot.base)).send().await.unwrap();
    assert_eq!(push.status(), 405);
}

/// Such connections cost the depot a file descriptor each: whoever reaches its port could use them all up.
#[tokio::test]
async fn a_client_that_says_nothing_or_stops_in_the_middle_is_let_go() {
    // Enough for a handshake on a busy machine.
    let depot = start_with(|running| running.patience(Duration::from_secs(3))).await;
    let whole = b"GET /v2/ HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let let_go = async |said: &[u8]| {
        let mut stream = shaken(depot.address).await;
        stream.write_all(said).await.unwrap();
        let ended = tokio::time::timeout(LONG, stream.read_to_end(&mut Vec::new())).await;
        assert!(ended.is_ok(), "still open after {said:?}");
    };
    let silent = async {
        let mut stream = tokio::net::TcpStream::connect(depot.address).await.unwrap();
        let ended = tokio::time::timeout(LONG, stream.read_to_end(&mut Vec::new())).await;
        assert!(ended.is_ok(), "still open without a handshake");
    };
    let half = let_go(b"GET /v2/ HTTP/1.1\r\nHost: loc");
    tokio::join!(let_go(b""), half, let_go(b"PRI * HTT"), let_go(whole), silent);
    let url = format!("{}/v2/", depot.base);
    assert_eq!(depot.client.get(url).send().await.unwrap().status(), 200, "an honest client is served all the same");
}

/// One byte now and then keeps a connection and an open file, and resets every timeout between two bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_or_sends_too_slowly_is_cut_and_one_that_pauses_is_not() {
    let second = Duration::from_secs(1);
    let large = vec![7; 64 << 20];
    let limited = async |within: Duration| {
        let depot = start_with(|running| running.pace(1 << 20, within).patience(2 * second)).await;
        std::fs::write(depot.folder.path().join("store/blobs/sha256").join(depot.layer.hex()), &large).unwrap();
        depot
    };
    let depot = limited(second).await;
    let path = format!("/blobs/sha256/{}", depot.layer.hex());

    // A depot that has no time for its timeouts in the first seconds has it in the next.
    let read_for = async |seconds: u32| {
        let mut slow = shaken(depot.address).await;
        slow.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
        let mut read = 0;
        let begun = std::time::Instant::now();
        while begun.elapsed() < seconds * second {
            let Ok(length @ 1..) = slow.read(&mut [0; 1024]).await else { break };
            read += length;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // What is left is what the buffers of both systems have.
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(LONG, slow.read_to_end(&mut rest)).await.unwrap();
        read + rest.len()
    };
    let mut read = Vec::new();
    for seconds in [4, 16, 64] {
        read.push(read_for(seconds).await);
        if *read.last().unwrap() < large.len() / 2 {
            break;
        }
    }
    assert!(*read.last().unwrap() < large.len() / 2, "it was served to the end: {read:?}");

    // What it sends without end is not waited for either.
    let mut slow = shaken(depot.address).await;
    let head =
        b"POST /v2/registry.k8s.io/pause/blobs/uploads/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n";
    slow.write_all(head).await.unwrap();
    let sending = async {
        while slow.write_all(b"x").await.is_ok() {
            tokio::time::sleep(second / 10).await
        }
    };
    tokio::time::timeout(LONG, sending).await.expect("cut in a minute");

    // A pause that is shorter than the time, by far: on a busy machine it is longer than it was meant.
    let depot = limited(LONG).await;
    for _ in 0..2 {
        let mut answer = depot.client.get(format!("{}{path}", depot.base)).send().await.unwrap();
        let first = answer.chunk().await.unwrap().unwrap().len();
        tokio::time::sleep(second).await;
        assert_eq!(first + answer.bytes().await.unwrap().len(), large.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_listens_on_another_address_of_the_same_port() {
    let depot = start().await;
    let path = depot.folder.path().join("config.json");
    let mut config: depot::DepotConfig = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config.listen = std::net::SocketAddr::from(([0, 0, 0, 0], depot.address.port()));
    std::fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
    depot.reload.send(()).await.unwrap();
    let other = std::net::SocketAddr::from(([127, 0, 0, 2], depot.address.port()));
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while tokio::net::TcpStream::connect(other).await.is_err() {
        assert!(std::time::Instant::now() < until, "it does not listen on every address");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// As systemd's `LoadCredential=` passes them to a unit that is not root.
#[tokio::test]
async fn certificate_and_key_are_read_from_a_folder_of_their_own() {
    let depot = start().await;
    let at = |name: &str| depot.folder.path().join(name);
    let folder = at("credentials");
    std::fs::create_dir(&folder).unwrap();
    for (from, to) in [("crt", "tls.crt"), ("key", "tls.key")] {
        std::fs::rename(at(from), folder.join(to)).unwrap();
    }
    assert!(kubexm_depot::check(&at("config.json"), None).await.is_err(), "they are not where the config says");
    kubexm_depot::check(&at("config.json"), Some(&folder)).await.unwrap();
    // A process that has neither can still say whether the config is right.
    kubexm_depot::check_config(&at("config.json")).await.unwrap();
    std::fs::write(at("config.json"), "{}").unwrap();
    assert!(kubexm_depot::check_config(&at("config.json")).await.is_err());
}

/// A TLS connection that trusts anybody, as an attacker's would.
pub async fn shaken(address: std::net::SocketAddr) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
    let config = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(std::sync::Arc::new(Anybody))
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    tokio_rustls::TlsConnector::from(std::sync::Arc::new(config)).connect(name, stream).await.unwrap()
}

#[derive(Debug)]
struct Anybody;

impl rustls::client::danger::ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// What a new client, on a connection of its own, gets for a path.
async fn status_of(ca: &str, address: std::net::SocketAddr, path: &str) -> Option<u16> {
    let ca = reqwest::Certificate::from_pem(ca.as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([ca]).no_proxy().build().unwrap();
    let answer = client.get(format!("https://localhost:{}{path}", address.port())).send().await.ok()?;
    Some(answer.status().as_u16())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_takes_over_all_that_is_new_or_nothing_and_open_connections_end_with_the_old() {
    let depot = start().await;
    let at = |name: &str| depot.folder.path().join(name);
    let old = std::fs::read_to_string(at("crt")).unwrap();
    let config: depot::DepotConfig = serde_json::from_slice(&std::fs::read(at("config.json")).unwrap()).unwrap();
    // A certificate whose key was not written yet: what is served stays as it is.
    let new = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(at("crt"), new.cert.pem()).unwrap();
    let mut more = config.clone();
    more.files.insert("more".to_owned(), depot.layer);
    std::fs::write(at("config.json"), serde_json::to_vec(&more).unwrap()).unwrap();
    assert!(kubexm_depot::check(&at("config.json"), None).await.is_err(), "the key belongs to the other certificate");
    // The second is taken only when the first has been read.
    for _ in 0..3 {
        depot.reload.send(()).await.unwrap();
    }
    assert_eq!(status_of(&old, depot.address, "/files/kubeadm").await, Some(200), "the old certificate still serves");
    assert_eq!(status_of(&old, depot.address, "/files/more").await, Some(404), "half of it was taken over");
    std::fs::write(at("key"), new.signing_key.serialize_pem()).unwrap();
    kubexm_depot::check(&at("config.json"), None).await.unwrap();
    depot.reload.send(()).await.unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while status_of(&new.cert.pem(), depot.address, "/files/more").await != Some(200) {
        assert!(std::time::Instant::now() < until, "the new certificate and file are not served");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(status_of(&old, depot.address, "/files/kubeadm").await, None, "the old certificate is gone");
}

/// A runtime keeps its connections: what it pulls over one right after a reload is what the reload brought.
#[tokio::test]
async fn an_open_connection_is_answered_with_what_is_served_when_it_asks() {
    let depot = start().await;
    let mut open = shaken(depot.address).await;
    let mut ask = async || {
        open.write_all(b"HEAD /files/kubeadm HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(open.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    };
    assert!(ask().await.starts_with("HTTP/1.1 200 "));
    let at = depot.folder.path().join("config.json");
    let mut without: depot::DepotConfig = serde_json::from_slice(&std::fs::read(&at).unwrap()).unwrap();
    without.files.clear();
    std::fs::write(&at, serde_json::to_vec(&without).unwrap()).unwrap();
    // The third is taken only when the first has been read.
    for _ in 0..3 {
        depot.reload.send(()).await.unwrap();
    }
    let after = ask().await;
    assert!(after.starts_with("HTTP/1.1 404 "), "{after}");
}

#[tokio::test]
async fn a_key_that_does_not_fit_is_an_error_that_names_the_files() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("crt"), "nothing").unwrap();
    std::fs::write(path("key"), "nothing").unwrap();
    let config = depot::DepotConfig {
        schema: depot::SCHEMA.to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        store: path("store"),
        tls: depot::Tls { cert: path("crt"), key: path("key") },
        login: None,
        images: BTreeMap::new(),
        files: BTreeMap::new(),
        packages: None,
    };
    std::fs::write(path("config.json"), serde_json::to_vec(&config).unwrap()).unwrap();
    let Err(error) = kubexm_depot::serve(Path::new(&path("config.json")), None).await else {
        panic!("it must not start")
    };
    assert!(error.to_string().contains(&path("key")), "{error}");
}

/// A pod that was made before the cluster got another bundle starts again on a node that does not have its image.
#[tokio::test]
async fn what_earlier_bundles_have_is_served_until_its_config_is_taken_away() {
    let depot = start().await;
    let at = |name: &str| depot.folder.path().join(name);
    std::fs::create_dir(at(depot::BUNDLES)).unwrap();
    std::fs::copy(at("config.json"), at("bundles/first.json")).unwrap();
    std::fs::write(at("bundles/damaged.json"), "{").unwrap();
    let mut second: depot::DepotConfig = serde_json::from_slice(&std::fs::read(at("config.json")).unwrap()).unwrap();
    let pause = second.images.remove("registry.k8s.io/pause").unwrap();
    // The same tag, of another bundle, names another image.
    let other = put(&at("store"), br#"{"schemaVersion":2,"layers":[]}"#);
    let moved = depot::Repository { tags: [("3.10.1".to_owned(), other)].into(), manifests: [other].into(), ..pause };
    second.images.insert("registry.k8s.io/moved".to_owned(), moved.clone());
    second.files.clear();
    std::fs::write(at("bundles/second.json"), serde_json::to_vec(&second).unwrap()).unwrap();
    second.images.insert("registry.k8s.io/pause".to_owned(), moved);
    std::fs::write(at("config.json"), serde_json::to_vec(&second).unwrap()).unwrap();

    let ask = async |path: &str, wanted: u16| {
        let until = std::time::Instant::now() + Duration::from_secs(60);
        loop {
            let answer = depot.client.get(format!("{}{path}", depot.base)).send().await.unwrap();
            if answer.status() == wanted {
                return answer.bytes().await.unwrap();
            }
            assert!(std::time::Instant::now() < until, "{path}: {}", answer.status());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    depot.reload.send(()).await.unwrap();
    ask("/v2/registry.k8s.io/moved/manifests/3.10.1", 200).await;
    let tagged = ask("/v2/registry.k8s.io/pause/manifests/3.10.1", 200).await;
    assert_eq!(Digest::of(tagged), other, "the tag is the new bundle's");
    ask(&format!("/v2/registry.k8s.io/pause/manifests/{}", depot.index), 200).await;
    assert_eq!(ask("/files/kubeadm", 200).await.as_ref(), b"layer bytes");
    std::fs::remove_file(at("bundles/first.json")).unwrap();
    depot.reload.send(()).await.unwrap();
    ask("/files/kubeadm", 404).await;
}
