//! Expiry of the certificates in files of a node. Keys in the same files are not used.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::cluster_facts::{Certificate, Gap, Leaf};
use kubexm_plan::etcd;
use kubexm_spec::Digest;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::gaps::Gaps;
use crate::{Machine, OpError, api_server_etcd, fsio};

/// The files of kubeadm, kubelet, etcd, the depot and the registry; each exists only on some hosts.
const FILES: [&str; 24] = [
    "/etc/kubernetes/pki/ca.crt",
    "/etc/kubernetes/pki/apiserver.crt",
    "/etc/kubernetes/pki/apiserver-kubelet-client.crt",
    "/etc/kubernetes/pki/apiserver-etcd-client.crt",
    "/etc/kubernetes/pki/front-proxy-ca.crt",
    "/etc/kubernetes/pki/front-proxy-client.crt",
    "/etc/kubernetes/pki/etcd/ca.crt",
    "/etc/kubernetes/pki/etcd/server.crt",
    "/etc/kubernetes/pki/etcd/peer.crt",
    "/etc/kubernetes/pki/etcd/healthcheck-client.crt",
    "/var/lib/kubelet/pki/kubelet-client-current.pem",
    "/var/lib/kubelet/pki/kubelet.crt",
    etcd::CA,
    etcd::SERVER_CERT,
    etcd::PEER_CERT,
    etcd::ADMIN_CERT,
    etcd::CLIENT_CA,
    etcd::CLIENT_CERT,
    "/etc/kubexm/registry-ca.crt",
    "/etc/kubexm/depot/ca.crt",
    "/etc/kubexm/depot/tls.crt",
    "/etc/kubexm/registry/ca.crt",
    "/etc/kubexm/registry/tls.crt",
    "/etc/kubexm/harbor/tls.crt",
];
/// Kubeconfigs with a client certificate in them.
const KUBECONFIGS: [&str; 5] = [
    "/etc/kubernetes/admin.conf",
    "/etc/kubernetes/super-admin.conf",
    "/etc/kubernetes/controller-manager.conf",
    "/etc/kubernetes/scheduler.conf",
    KUBELET_CONF,
];

/// It names the file of kubelet's certificate, once kubelet has one, and has a certificate in it only until then.
const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";

/// So many files of a folder are looked at, and no longer ones: of each node of a cluster one at most.
const MOST: usize = 500;
const LONGEST: u64 = 1 << 20;

pub(super) fn look(machine: &Machine, host: &str) -> (Vec<Certificate>, Vec<Gap>) {
    let mut gaps = Gaps::of(host);
    let mut found = Vec::new();
    let of_etcd = gaps.note("certificates of etcd", of_etcd(machine)).unwrap_or_default();
    for path in FILES.into_iter().chain(KUBECONFIGS).chain(of_etcd.iter().map(String::as_str)) {
        let what = format!("certificate {path}");
        let Some(Some(bytes)) = gaps.note(&what, fsio::read(&machine.path(path))) else { continue };
        let file = Digest::of(&bytes);
        let pem =
            if KUBECONFIGS.contains(&path) { of_kubeconfig(&bytes, "client-certificate-data") } else { Some(bytes) };
        if path == KUBELET_CONF && pem.is_none() {
            continue;
        }
        match pem.as_deref().and_then(read) {
            Some(First { subject, ends, leaf }) => {
                let (host, path) = (host.to_owned(), path.to_owned());
                found.push(Certificate { host, path, subject, ends, file: Some(file), leaf: Some(leaf) });
            }
            None => gaps.add(&what, "there is no certificate in it that can be read"),
        }
    }
    (found, gaps.found)
}

/// Files of an etcd that is neither kubeadm's nor kubexm's: what the API server's manifest names, and what the same CA has signed beside
/// them (`member-a1.pem`). Others in that folder are nobody's business.
fn of_etcd(machine: &Machine) -> Result<Vec<String>, OpError> {
    let Some(access) = api_server_etcd::access(machine)? else { return Ok(Vec::new()) };
    let is_known = |path: &str| FILES.contains(&path);
    let mut all: Vec<String> = [&access.ca, &access.certificate].into_iter().cloned().collect();
    let folder = access.certificate.rsplit_once('/').map_or("/", |(folder, _)| folder);
    let ca = fsio::read(&machine.path(&access.ca))?.and_then(|bytes| named(&bytes)).map(|(subject, _)| subject);
    if !is_known(&access.certificate) && ca.is_some() {
        for name in names(machine, folder)? {
            let path = format!("{folder}/{name}");
            let issuer = fsio::read(&machine.path(&path))?.and_then(|bytes| named(&bytes)).map(|(_, issuer)| issuer);
            if issuer == ca {
                all.push(path);
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all.retain(|path| !is_known(path));
    Ok(all)
}

/// Names of files in a folder that can be certificates, and no keys.
fn names(machine: &Machine, folder: &str) -> Result<Vec<String>, OpError> {
    let real = machine.path(folder);
    let entries = std::fs::read_dir(&real).map_err(OpError::path("list", &real))?;
    let names = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let small = entry.path().metadata().is_ok_and(|found| found.is_file() && found.len() <= LONGEST);
        let name = entry.file_name().into_string().ok()?;
        let is_one = (name.ends_with(".pem") || name.ends_with(".crt")) && !name.ends_with("-key.pem");
        (small && is_one).then_some(name)
    });
    Ok(names.take(MOST).collect())
}

/// Whose a certificate is, and who has signed it, as they are written.
fn named(pem: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    Some((certificate.subject().as_raw().to_vec(), certificate.issuer().as_raw().to_vec()))
}

/// The certificate (`client-certificate-data`) or the key (`client-key-data`) in a kubeconfig.
pub(crate) fn of_kubeconfig(bytes: &[u8], field: &str) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(bytes);
    let encoded = text.lines().find_map(|line| line.trim().strip_prefix(field)?.strip_prefix(": "))?;
    BASE64.decode(encoded.trim().trim_matches('"')).ok()
}

/// When the first certificate of a file ends, in seconds of Unix time; none if there is none that can be read.
pub(crate) fn ends(path: &str, bytes: &[u8]) -> Option<i64> {
    let pem =
        if KUBECONFIGS.contains(&path) { of_kubeconfig(bytes, "client-certificate-data")? } else { bytes.to_vec() };
    read(&pem).map(|first| first.ends)
}

/// The first certificate of a text.
struct First {
    subject: String,
    ends: i64,
    leaf: Leaf,
}

fn read(pem: &[u8]) -> Option<First> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let name = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    let validity = certificate.validity();
    Some(First {
        subject: name.unwrap_or_default().to_owned(),
        ends: validity.not_after.timestamp(),
        leaf: Leaf { digest: Digest::of(&der), begins: validity.not_before.timestamp() },
    })
}
