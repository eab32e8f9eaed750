//! `sha256:<hex>` of the public key of the cluster's CA (SubjectPublicKeyInfo, RFC 5280 4.1.2.7, in DER), with which a
//! joining node verifies the cluster.

use kubexm_spec::Digest;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{Machine, OpError, fsio};

const CA: &str = "/etc/kubernetes/pki/ca.crt";

pub(super) fn read(machine: &Machine) -> Result<String, OpError> {
    let bytes = fsio::read(&machine.path(CA))?.ok_or_else(|| {
        OpError::other(format!("{CA} is not there: `kubeadm init` has not run on this node; run again once it has"))
    })?;
    let bad = |what: &dyn std::fmt::Display| {
        OpError::other(format!("{CA} is not a certificate ({what}); put the cluster's CA certificate back"))
    };
    let der = CertificateDer::from_pem_slice(&bytes).map_err(|error| bad(&error))?;
    let (_, certificate) = X509Certificate::from_der(&der).map_err(|error| bad(&error))?;
    Ok(Digest::of(certificate.public_key().raw).to_string())
}
