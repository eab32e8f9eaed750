//! Blobs that one host takes from another, each with the agent of its own link.

use std::net::SocketAddr;

use kubexm_engine::link::wire::Secret;
use kubexm_engine::link::{Fetched, RunIdentity};
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
        RunIdentity { ca: ca.pem(), certificate, key: Secret(key.serialize_pem().into_bytes()) }
    })
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
    let fetched = second.fetch_shared(&[small], at, &of_second, &progress).await.unwrap();
    assert_eq!((fetched.missing, fetched.reasons.len()), (vec![small], 1));

    first.share(at, &[small.0], &of_first).await.unwrap();
    let fetched = second.fetch_shared(&source.list(), at, &of_second, &progress).await.unwrap();
    assert_eq!(fetched, Fetched { missing: vec![large], ..Fetched::default() });
    assert_eq!((stored(&other, &small.0), stored(&other, &large.0)), (Some(small.0), None));
    // Asked again, it serves more at the same place.
    first.share(at, &[large.0], &of_first).await.unwrap();
    assert_eq!(second.fetch_shared(&source.list(), at, &of_second, &progress).await.unwrap(), Fetched::default());
    assert_eq!(stored(&other, &large.0), Some(large.0));

    first.close().await;
    assert!(std::net::TcpStream::connect(at).is_err(), "it still listens");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_an_error_of_that_host() {
    let server = Server::start(&Setup::default());
    let link = server.connect().await.unwrap();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let [identity, _] = identities();
    let error = link.share(holder.local_addr().unwrap(), &[], &identity).await.unwrap_err().to_string();
    assert!(error.contains("cannot listen on"), "{error}");
}
