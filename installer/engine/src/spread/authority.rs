//! The certificates of one run: by them hosts know the other hosts of the run, and nobody else. They are made on the controller for an
//! attempt, and are in no file.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};
use zeroize::Zeroizing;

use crate::link::{RunIdentity, RunKey};

/// A run takes hours at most, and is continued with new certificates.
const VALIDITY: Duration = Duration::days(7);
/// Hosts' clocks may be behind, since some are set by the run itself.
const BACKDATED: Duration = Duration::days(1);

/// Signs the certificates of hosts.
pub(super) struct RunAuthority(CertifiedIssuer<'static, KeyPair>);

impl RunAuthority {
    pub(super) fn make() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.distinguished_name.push(DnType::CommonName, "KubeXM run");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        set_validity(&mut params);
        CertifiedIssuer::self_signed(params, KeyPair::generate()?).map(Self)
    }

    /// Of the host with this address, as a server and as a client.
    pub(super) fn identity(&self, address: IpAddr) -> Result<RunIdentity, rcgen::Error> {
        let mut params = CertificateParams::new(vec![address.to_string()])?;
        params.distinguished_name.push(DnType::CommonName, "KubeXM host");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        set_validity(&mut params);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?.pem();
        Ok(RunIdentity { ca: self.0.pem(), certificate, key: RunKey(Zeroizing::new(key.serialize_pem().into_bytes())) })
    }
}

fn set_validity(params: &mut CertificateParams) {
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - BACKDATED, now + VALIDITY);
}
