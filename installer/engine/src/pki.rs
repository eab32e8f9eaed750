//! The certificates of one cluster on its controller: `clusters/<name>/pki`, readable by the owner only.
//!
//! A certificate and its key lie in one file, so a crash between the two cannot part them. What is good is given out
//! again byte for byte: a second run finds nothing to change.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use kubexm_plan::{Plan, SlotName, SlotProvider};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

use crate::EngineError;
use crate::files::{make_dir, plain_name, write_whole};
use crate::pem::{self, Pair};
use crate::slots::SlotSource;

/// How long the CA and its certificates are good for: ten years of 365 days.
const VALIDITY: Duration = Duration::days(3650);
/// Clocks of hosts may run behind.
const BACKDATED: Duration = Duration::hours(1);
/// A server certificate with less left is made anew.
const RENEW_BEFORE: Duration = Duration::days(30);

/// The pki folder of a cluster. Used under the lock of the cluster's folder.
#[derive(Clone, Debug)]
pub struct ClusterPki {
    dir: PathBuf,
    now: Option<OffsetDateTime>,
}

impl ClusterPki {
    /// Opens or makes the folder. Certificates are made when they are first asked for.
    pub fn open(dir: &Path) -> Result<Self, EngineError> {
        make_dir(dir)?;
        Ok(Self { dir: dir.to_owned(), now: None })
    }

    /// The same folder as it will be seen at another time, for tests of renewal.
    #[must_use]
    pub fn at(mut self, now: OffsetDateTime) -> Self {
        self.now = Some(now);
        self
    }

    fn now(&self) -> OffsetDateTime {
        self.now.unwrap_or_else(OffsetDateTime::now_utc)
    }

    /// The registry CA's certificate as PEM.
    pub fn registry_ca(&self) -> Result<String, EngineError> {
        Ok(self.authority()?.certificates)
    }

    /// Certificate chain and key (PKCS#8) of a registry server, both PEM. Made anew when the names change, when it
    /// is about to expire, or when the CA is another.
    pub fn registry_server(&self, name: &str, sans: &[String]) -> Result<(String, String), EngineError> {
        let authority = self.authority()?;
        let path = self.dir.join(format!("registry-server-{}.pem", plain_name(name)));
        if let Some(pair) = pem::read(&path)?
            && pem::serves(&path, &pair, sans, &authority.certificates, self.now() + RENEW_BEFORE)?
        {
            return Ok((pair.certificates, pair.key));
        }
        let failed = rcgen_failed(&path);
        let mut params = CertificateParams::new(sans).map_err(&failed)?;
        // Names are looked for in the SANs alone; a long cluster name would not fit here (RFC 5280, ub-common-name).
        params.distinguished_name = common_name("KubeXM registry");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        self.set_validity(&mut params);
        let ca_key = KeyPair::from_pem(&authority.key).map_err(&failed)?;
        let issuer = Issuer::from_ca_cert_pem(&authority.certificates, ca_key).map_err(&failed)?;
        let key = KeyPair::generate().map_err(&failed)?;
        let leaf = params.signed_by(&key, &issuer).map_err(&failed)?;
        let pair = Pair { certificates: leaf.pem() + &authority.certificates, key: key.serialize_pem() };
        write_whole(&path, pair.to_pem().as_bytes(), 0o600)?;
        Ok((pair.certificates, pair.key))
    }

    fn authority(&self) -> Result<Pair, EngineError> {
        let path = self.dir.join("registry-ca.pem");
        if let Some(pair) = pem::read(&path)? {
            return Ok(pair);
        }
        let failed = rcgen_failed(&path);
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name("KubeXM registry CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        self.set_validity(&mut params);
        let key = KeyPair::generate().map_err(&failed)?;
        let certificate = params.self_signed(&key).map_err(&failed)?;
        let pair = Pair { certificates: certificate.pem(), key: key.serialize_pem() };
        write_whole(&path, pair.to_pem().as_bytes(), 0o600)?;
        Ok(pair)
    }

    fn set_validity(&self, params: &mut CertificateParams) {
        let from = self.now() - BACKDATED;
        params.not_before = from;
        params.not_after = from + VALIDITY;
    }
}

fn rcgen_failed(path: &Path) -> impl Fn(rcgen::Error) -> EngineError {
    move |error| EngineError::Pki { path: path.to_owned(), reason: error.to_string() }
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

#[async_trait]
impl SlotSource for ClusterPki {
    async fn value(&self, name: &SlotName, provider: &SlotProvider, plan: &Plan) -> Result<Vec<u8>, EngineError> {
        match provider {
            SlotProvider::RegistryCa => Ok(self.registry_ca()?.into_bytes()),
            SlotProvider::RegistryCert { sans } => Ok(self.registry_server(&name.0, sans)?.0.into_bytes()),
            SlotProvider::RegistryKey { cert } => match plan.slots.get(cert) {
                Some(SlotProvider::RegistryCert { sans }) => Ok(self.registry_server(&cert.0, sans)?.1.into_bytes()),
                _ => Err(EngineError::Slot {
                    slot: name.0.clone(),
                    reason: format!("slot {} is not a certificate; this is a fault of the recipe", cert.0),
                }),
            },
            SlotProvider::Secret { field } => Err(EngineError::Slot {
                slot: name.0.clone(),
                reason: format!("{field} is not a certificate; this is a fault of the program"),
            }),
            SlotProvider::JoinToken { .. }
            | SlotProvider::CaCertHash { .. }
            | SlotProvider::CertificateKey { .. }
            | SlotProvider::AdminKubeconfig { .. } => Err(EngineError::Slot {
                slot: name.0.clone(),
                reason: "it is made on a host, not here; this is a fault of the program".to_owned(),
            }),
        }
    }
}
