//! What hosts send, as functions of any bytes.

use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::time::SystemTime;

use kubexm_plan::etcd_check::EtcdAsk;
use kubexm_plan::kubeadm_certificates::SHARED;
use kubexm_plan::op::StateDir;
use kubexm_plan::{CertificateRequest, Requested, SlotProvider, Step, Undo};
use kubexm_spec::{Cluster, printable};
use russh::keys::PublicKey;

use crate::backup::BackupHeader;
use crate::kubeconfig::AdminKubeconfig;
use crate::link::known_hosts::{KnownHosts, Verdict};
use crate::link::wire::frame::{next_frame, parse, read_frame, skip_to_magic};
use crate::link::wire::{Frame, RequestMessage, Response, ResponseMessage};
use crate::link::{LinkError, answers};
use crate::sealed::SealedAuthorities;
use crate::signed::{self, Wanted};

/// A channel of an agent: frames and the messages in them. Both readers read the same from it.
pub fn wire(bytes: &[u8]) {
    let (mut rest, mut later) = (bytes, bytes);
    let _ = futures::executor::block_on(skip_to_magic(&mut &*bytes));
    loop {
        let (now, then) = (read_frame(&mut rest), futures::executor::block_on(next_frame(&mut later)));
        assert_eq!(now.as_ref().ok(), then.as_ref().ok(), "two readers differ");
        let Ok(Some(frame)) = now else { return };
        let Frame::Message(body) = frame else { continue };
        let _ = parse::<RequestMessage>(&body);
        let _ = parse::<ResponseMessage>(&body);
    }
}

/// A packet of VRRP from anybody in a host's network.
pub fn vrrp(bytes: &[u8]) {
    if let Some(advert) = kubexm_ops::probe::vrrp::advert(bytes) {
        assert!(advert.addresses.len() * 4 <= bytes.len(), "{advert:?}");
    }
}

/// The JSON of an answer of host `a`, which was asked about its step `os.swap`; another host has one of that name. Where the answer itself
/// names what was asked (connections, members of etcd), it was asked for just that.
pub fn answer(bytes: &[u8]) {
    let Ok(ResponseMessage { answer, .. }) = parse::<ResponseMessage>(bytes) else { return };
    let (own, other) = (step("a"), step("b"));
    let asked = [&own, &other];
    let refused = match answer {
        Response::Surveyed { survey } => answers::surveyed("a", &asked, survey)
            .map(|survey| assert!(survey.holding.iter().all(|id| *id == own.id), "{survey:?}"))
            .err(),
        Response::Drift { drift } => answers::drift("a", &asked, drift)
            .map(|drift| assert!(drift.iter().all(|one| one.step == own.id), "{drift:?}"))
            .err(),
        Response::Observed { found } => answers::observed("a", &own, found, &AtomicUsize::new(answers::MOST_OF_A_RUN))
            .map(|found| assert!(own.ops.iter().zip(&found).all(|(op, state)| op.places(state).is_ok()), "{found:?}"))
            .err(),
        Response::Facts { facts } => answers::facts("a", &facts).err(),
        Response::ClusterFacts { facts } => answers::cluster_facts("a", *facts).err(),
        Response::ConnectionResult { dialed } => {
            let asked: Vec<_> = dialed.iter().map(|one| one.dial.clone()).collect();
            let others = answers::dialed("a", &[], dialed.clone()).err();
            assert_eq!(others.is_some(), !asked.is_empty(), "it answered for what it was not asked");
            answers::dialed("a", &asked, dialed).err().or(others)
        }
        Response::Ledger { records } => answers::ledger("a", records).err(),
        Response::Addons { installed } => answers::addons("a", *installed).err(),
        Response::Depot { content } => answers::depot("a", *content).err(),
        Response::EtcdAnswered { answer } => {
            let endpoints = answer.endpoints.iter().map(|one| one.endpoint.clone()).collect();
            let [ca, certificate, prefix] = [const { String::new() }; 3];
            answers::etcd("a", &EtcdAsk { endpoints, ca, certificate, prefix, of: None, as_api_server: false }, answer)
                .err()
        }
        Response::Provided { value } => provided(&value.0),
        Response::Probed { answer } => {
            let _ = answers::probed(answer);
            None
        }
        Response::Fetched { reasons, .. } => {
            let reasons = answers::reasons(reasons);
            assert!(reasons.iter().all(|reason| printable(reason) == *reason), "{reasons:?}");
            None
        }
        Response::Evidence { files } => {
            let _ = answers::evidence(files);
            None
        }
        Response::StepLog { text } => {
            let _ = answers::log(text);
            None
        }
        Response::Failed { text } => {
            let _ = answers::error(text);
            None
        }
        _ => None,
    };
    if let Some(error @ LinkError::Untrusted { .. }) = refused {
        let text = error.to_string();
        assert_eq!(printable(&text), text, "a host writes to the terminal");
    }
}

/// A step with an op, whose state is a folder's.
fn step(host: &str) -> Step {
    Step::on(host, "os.swap", "Do").ensure(StateDir::at("/var/lib/x")).undo(Undo::RestoreBefore).build()
}

/// A value for the configuration of other hosts, whichever was asked for: nothing of it begins another field there.
fn provided(value: &[u8]) -> Option<LinkError> {
    let host = || "a".to_owned();
    let words = [
        SlotProvider::JoinToken { host: host() },
        SlotProvider::CaCertHash { host: host() },
        SlotProvider::UploadKey { host: host() },
    ];
    for provider in words {
        if let Ok(value) = answers::provided("a", &provider, value.to_vec()) {
            assert!(value.iter().all(|byte| byte.is_ascii_alphanumeric() || b".:".contains(byte)), "{provider:?}");
        }
    }
    for path in SHARED {
        let provider = SlotProvider::SharedFile { host: host(), path: path.to_owned() };
        let taken = answers::provided("a", &provider, value.to_vec());
        assert!(taken.is_err() || value.len() <= 32 << 10, "what is too long is no certificate and no key");
    }
    answers::provided("a", &SlotProvider::KubeletClient { host: host(), node: host() }, value.to_vec()).err()
}

/// A certificate (DER) that a site's CA has signed, or anybody else, and that CA's own.
pub fn certificate(bytes: &[u8]) {
    let text = ::pem::encode(&::pem::Pem::new("CERTIFICATE", bytes));
    let name = || "a".to_owned();
    for of in [Requested::Apiserver, Requested::Kubelet] {
        let (organizations, sans) = (vec![name()], vec![name(), "10.0.0.1".to_owned()]);
        let request = CertificateRequest { name: name(), host: name(), of, common_name: name(), organizations, sans };
        let wanted = Wanted { ca: &text, now: SystemTime::UNIX_EPOCH, valid_s: 1, has_key: &|_| true };
        if let Err(faults) = wanted.check(&request, &text) {
            assert!(faults.len() <= 16, "{faults:?}");
        }
    }
    let _ = signed::of_text(&text);
    // As an authority of a host that another host has renewed; without a key nothing is.
    let _ = kubexm_ops::authority::same_authority(&text, &text);
    assert!(kubexm_ops::authority::renewed(&text, "", 1).is_err());
}

/// A known_hosts file.
pub fn known_hosts(bytes: &[u8]) {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    let Ok(key) = PublicKey::from_openssh(key) else { return };
    let text = String::from_utf8_lossy(bytes);
    let mut known = KnownHosts::default();
    known.add(Path::new("known_hosts"), &text);
    for (host, port) in [("node1", 22), ("10.77.0.11", 2222), ("fd00::1", 22)] {
        let verdict = known.check(host, port, &key);
        let _ = known.algorithms(host, port);
        // Only a file that has the key itself vouches for it.
        if matches!(verdict, Verdict::Known | Verdict::Revoked(_)) {
            assert!(text.contains("AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ"), "{text}");
        }
    }
}

/// An admin.conf, and what is made of it for the operator.
pub fn kubeconfig(bytes: &[u8]) {
    let cluster = Cluster::named("demo");
    match AdminKubeconfig::read(bytes, &cluster, "10.0.0.5") {
        Ok(admin) => {
            let ours = admin.render(&cluster, "10.0.0.5");
            for field in
                ["exec", "auth-provider", "proxy-url", "token", "insecure-skip-tls-verify", "certificate-authority:"]
            {
                assert!(!ours.contains(field), "{field}");
            }
        }
        Err(error) => {
            let text = error.to_string();
            assert_eq!(printable(&text), text, "a host writes to the terminal");
        }
    }
}

/// The sealed authorities that a control plane keeps.
pub fn sealed(bytes: &[u8]) {
    let _ = kubexm_ops::age_file::decryptor(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(sealed) = SealedAuthorities::parse(text) {
        let again = sealed.to_json().ok().and_then(|json| SealedAuthorities::parse(&json).ok());
        assert_eq!(again.as_ref(), Some(&sealed));
        let _ = sealed.about.for_whom();
    }
}

/// `backup.json` of a folder of backups, which whoever can write there has made.
pub fn backup_header(bytes: &[u8]) {
    match BackupHeader::parse(bytes, Path::new("/backups/demo")) {
        Ok(header) => {
            let again = header
                .to_json()
                .ok()
                .and_then(|json| BackupHeader::parse(json.as_bytes(), Path::new("/backups/demo")).ok());
            assert_eq!(again.as_ref(), Some(&header));
        }
        Err(error) => {
            let text = error.to_string();
            assert_eq!(printable(&text), text, "whoever made a backup writes to the terminal");
        }
    }
}
