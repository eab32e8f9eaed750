//! Blobs that one host takes from another, each with the agent of its own link.

use std::net::SocketAddr;
use std::time::Duration;

use kubexm_engine::link::{Fetched, RunIdentity, RunKey};
use kubexm_plan::StepId;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

use super::*;

fn identities() -> [RunIdentity; 2] {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    [(); 2].map(|()| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &ca).unwrap().pem();
        RunIdentity { ca: ca.pem(), certificate, key: RunKey(key.serialize_pem().into_bytes().into()) }
    })
}

fn fill() -> StepId {
    StepId("n1/store.fill".to_owned())
}

fn free() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_serves_others_from_when_it_is_told_until_its_agent_ends() {
    let (one, other) = (Server::start(&Setup::default()), Server::start(&Setup::default()));
    let (first, second) = (one.connect().await.unwrap(), other.connect().await.unwrap());
    let source = Pattern::new(&[300_000, 3_000_000], u64::MAX, &|| {});
    let [small, large] = source.list()[..] else { panic!("two blobs") };
    let ([of_first, of_second], at) = (identities(), free());
    let progress = |_: Digest, _: u64, _: u64| {};
    first.deliver(&source.list(), &source, &progress).await.unwrap();

    // Nobody listens before it is asked to.
    let fetched = second.fetch_shared(&fill(), &[small], at, &of_second, &progress).await.unwrap();
    assert_eq!((fetched.missing, fetched.reasons.len()), (vec![small], 1));

    first.share(at, &[small.0], &of_first).await.unwrap();
    let fetched = second.fetch_shared(&fill(), &source.list(), at, &of_second, &progress).await.unwrap();
    assert_eq!(fetched, Fetched { missing: vec![large], ..Fetched::default() });
    assert_eq!((stored(&other, &small.0), stored(&other, &large.0)), (Some(small.0), None));
    // Asked again, it serves more at the same place.
    first.share(at, &[large.0], &of_first).await.unwrap();
    assert_eq!(
        second.fetch_shared(&fill(), &source.list(), at, &of_second, &progress).await.unwrap(),
        Fetched::default()
    );
    assert_eq!(stored(&other, &large.0), Some(large.0));

    // Of nothing, it serves nothing.
    first.share(at, &[], &of_first).await.unwrap();
    assert!(std::net::TcpStream::connect(at).is_err(), "it still listens");
    first.share(at, &[large.0], &of_first).await.unwrap();
    assert!(std::net::TcpStream::connect(at).is_ok(), "it does not listen again");
    first.close().await;
    assert!(std::net::TcpStream::connect(at).is_err(), "it still listens");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_an_error_of_that_host() {
    let server = Server::start(&Setup::default());
    let link = server.connect().await.unwrap();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let [identity, _] = identities();
    let blobs = [Digest::of("a blob")];
    let error = link.share(holder.local_addr().unwrap(), &blobs, &identity).await.unwrap_err().to_string();
    assert!(error.contains("cannot listen on"), "{error}");
}

/// Passes on so many bytes of what another address sends, and then nothing more.
async fn stops_after(most: u64, to: SocketAddr) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((taker, _)) = listener.accept().await {
            let source = tokio::net::TcpStream::connect(to).await.unwrap();
            tokio::spawn(async move {
                let ((mut asks, mut takes), (sends, mut asked)) = (taker.into_split(), source.into_split());
                let mut part = tokio::io::AsyncReadExt::take(sends, most);
                let pass = async {
                    tokio::join!(tokio::io::copy(&mut asks, &mut asked), tokio::io::copy(&mut part, &mut takes))
                };
                let _ = pass.await;
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_waits_for_any_more_holds_no_blob_back() {
    let (one, other) = (Server::start(&Setup::default()), Server::start(&Setup::default()));
    let (first, second) = (one.connect().await.unwrap(), other.connect().await.unwrap());
    let source = Pattern::new(&[8_000_000], u64::MAX, &|| {});
    let ([of_first, of_second], at) = (identities(), free());
    let progress = |_: Digest, _: u64, _: u64| {};
    first.deliver(&source.list(), &source, &progress).await.unwrap();
    first.share(at, &[source.list()[0].0], &of_first).await.unwrap();
    let crawls = stops_after(200_000, at).await;
    for quick in [true, false] {
        let blobs = source.list();
        // One that nobody has gives the request time: minutes, in which it would stop ten seconds in each of its tries.
        let all = [&blobs[..], &[(Digest::of("what nobody has"), 100 << 20)]].concat();
        let step = fill();
        let taken = second.fetch_shared(&step, &all, crawls, &of_second, &progress);
        let given_up = tokio::time::timeout(Duration::from_secs(2), taken).await;
        assert!(given_up.is_err(), "it did not stop: {given_up:?}");
        // Its request goes on, and has the part file meanwhile.
        let begun = std::time::Instant::now();
        match quick {
            true => drop(second.fetch_shared(&step, &blobs, free(), &of_second, &progress).await.unwrap()),
            false => second.deliver(&blobs, &source, &progress).await.unwrap(),
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
    assert_eq!(stored(&other, &source.list()[0].0), Some(source.list()[0].0));
}
