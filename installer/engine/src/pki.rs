//! The certificates of one cluster on its controller: `clusters/<name>/pki`, readable by the owner only.
//!
//! A certificate and its key are in one file, so a crash cannot separate them. Valid ones are returned unchanged, so
//! that a second run finds nothing to change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::{Authority, CertificateUse, Plan, Recipient, SlotName, SlotProvider};
use kubexm_spec::Digest;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};
use zeroize::Zeroizing;

use crate::EngineError;
use crate::files::plain_name;
use crate::operator::OperatorIdentity;
use crate::pem::{self, BACKDATED, Pair};
use crate::pki_files::{PkiFiles, is_pki_file};
use crate::pki_folder::PkiFolder;
use crate::sealed::SealedAuthorities;
use crate::slots::SlotSource;

/// How long a CA or a certificate is valid where the plan, an earlier program's, says nothing: ten years of 365 days.
const VALIDITY: Duration = Duration::days(3650);
/// The pki folder of a cluster. Used under the lock of the cluster's folder.
#[derive(Clone, Debug)]
pub struct ClusterPki {
    folder: PkiFolder,
    now: Option<OffsetDateTime>,
    /// So that all control planes get the same bytes.
    sealing: Arc<Mutex<()>>,
}

/// The sealed authorities as they were last made here, or taken from a control plane.
const SEALED: &str = "authorities.json";

impl ClusterPki {
    /// Opens or creates the folder. Certificates are created on first use.
    pub fn open(dir: &Path) -> Result<Self, EngineError> {
        Ok(Self { folder: PkiFolder::open(dir)?, now: None, sealing: Arc::default() })
    }

    /// The folder as it is, or an empty one, for a comparison: what a run would make or renew is made in memory, and
    /// nothing is written.
    pub fn view(dir: &Path, empty: bool) -> Self {
        Self { folder: PkiFolder::view(dir, !empty), now: None, sealing: Arc::default() }
    }

    /// The same folder at another time, for tests of renewal.
    #[must_use]
    pub fn at(mut self, now: OffsetDateTime) -> Self {
        self.now = Some(now);
        self
    }

    fn now(&self) -> OffsetDateTime {
        self.now.unwrap_or_else(OffsetDateTime::now_utc)
    }

    /// The certificate of an authority as PEM.
    pub fn certificate_of(&self, authority: Authority) -> Result<String, EngineError> {
        Ok(self.authority(authority, &Wish::default())?.certificates)
    }

    /// Certificate chain and key (PKCS#8), both PEM. Created again if its use or its authority has changed, if it is
    /// about to expire, or if it is one of those that are replaced.
    pub fn certificate(&self, name: &str, wanted: &CertificateUse) -> Result<(String, String), EngineError> {
        self.certificate_by(name, wanted, &Wish::default())
    }

    /// The same; its authority is as a plan wants it.
    fn certificate_by(
        &self,
        name: &str,
        wanted: &CertificateUse,
        wish: &Wish<'_>,
    ) -> Result<(String, String), EngineError> {
        let authority = self.authority(wanted.authority, wish)?;
        let file = format!("{}-{}.pem", file_prefix(wanted), plain_name(name));
        let path = self.folder.path(&file);
        if let Some(pair) = self.read(&file)?
            && !wanted.replaces.contains(&Digest::of(&pair.certificates))
            && pem::serves(&path, &pair, wanted, &authority.certificates, self.now())?
        {
            return Ok((pair.certificates, pair.key));
        }
        let failed = rcgen_failed(&path);
        let mut params = CertificateParams::new(wanted.sans.as_slice()).map_err(&failed)?;
        // Clients check a server's names in the SANs only.
        let common = wanted.common_name.clone().unwrap_or_else(|| format!("KubeXM {}", word(wanted.authority)));
        params.distinguished_name = distinguished(&common, &wanted.organizations);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let server = (!wanted.sans.is_empty()).then_some(ExtendedKeyUsagePurpose::ServerAuth);
        let client = wanted.client.then_some(ExtendedKeyUsagePurpose::ClientAuth);
        params.extended_key_usages = server.into_iter().chain(client).collect();
        params.use_authority_key_identifier_extension = true;
        self.set_validity(&mut params, wanted.valid_h);
        let (ca, ends) = (Self::file_of(wanted.authority), pem::ends(&path, &authority.certificates)?);
        if ends <= self.now() {
            return Err(EngineError::AuthorityEnded { path: self.folder.path(&ca), hint: no_longer(wanted.authority) });
        }
        params.not_after = params.not_after.min(ends);
        let ca_key = KeyPair::from_pem(&authority.key).map_err(&failed)?;
        let issuer = Issuer::from_ca_cert_pem(&authority.certificates, ca_key).map_err(&failed)?;
        let key = KeyPair::generate().map_err(&failed)?;
        let leaf = params.signed_by(&key, &issuer).map_err(&failed)?;
        let pair = Pair { certificates: leaf.pem() + &authority.certificates, key: key.serialize_pem() };
        self.folder.write(&file, &Zeroizing::new(pair.to_pem()))?;
        Ok((pair.certificates, pair.key))
    }

    fn read(&self, file: &str) -> Result<Option<Pair>, EngineError> {
        let text = self.folder.read(file)?;
        text.map(|text| pem::parse(&self.folder.path(file), &text)).transpose()
    }

    /// Makes the CA of an authority, unless it exists, or renews it, as a plan wants it.
    pub fn make(&self, authority: Authority, plan: &Plan) -> Result<(), EngineError> {
        self.authority(authority, &Wish::of(plan, authority)).map(drop)
    }

    /// Digests of all certificates in a pki folder, by file; none if there is no such folder.
    pub fn certificates_in(dir: &Path) -> Result<BTreeMap<String, Digest>, EngineError> {
        Ok(Self::view(dir, false).files()?.certificates())
    }

    /// Whether the authorities among these files have the keys of those in the folder: they are the same ones, maybe with other ends.
    pub fn has_keys_of(&self, files: &PkiFiles) -> Result<bool, EngineError> {
        for file in [Authority::Registry, Authority::Etcd].map(Self::file_of) {
            let theirs = files.0.get(&file).map(|text| pem::parse(&self.folder.path(&file), text)).transpose()?;
            let ours = self.read(&file)?;
            if theirs.as_ref().map(|pair| pair.key.trim()) != ours.as_ref().map(|pair| pair.key.trim()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Digests of the certificates of the authorities that are in the folder.
    pub fn authorities(&self) -> Result<BTreeMap<Authority, Digest>, EngineError> {
        let certificates = self.files()?.certificates();
        let of = |authority: Authority| Some((authority, *certificates.get(&Self::file_of(authority))?));
        Ok([Authority::Registry, Authority::Etcd].into_iter().filter_map(of).collect())
    }

    /// The file of an authority's CA in a pki folder.
    pub fn file_of(authority: Authority) -> String {
        format!("{}-ca.pem", word(authority))
    }

    /// Copies etcd's authority and certificates from another folder: a new CA of the registry leaves them as they are.
    pub fn keep_etcd_of(&self, other: &Self) -> Result<(), EngineError> {
        let prefix = format!("{}-", word(Authority::Etcd));
        for (name, text) in other.files()?.0.iter().filter(|(name, _)| name.starts_with(&prefix)) {
            self.folder.write(name, text)?;
        }
        Ok(())
    }

    /// The document that a pki folder keeps, with its text; none if there is none that can be read.
    pub fn sealed_in(dir: &Path) -> Result<Option<(String, SealedAuthorities)>, EngineError> {
        let text = PkiFolder::view(dir, true).read(SEALED)?;
        Ok(text.and_then(|text| Some((text.to_string(), SealedAuthorities::parse(&text).ok()?))))
    }

    /// Writes opened authorities into the folder, with a document to keep.
    pub fn fill(&self, files: &PkiFiles, sealed: &str) -> Result<(), EngineError> {
        for (name, text) in &files.0 {
            self.folder.write(name, text)?;
        }
        self.keep_sealed(sealed)
    }

    /// Keeps a document of a control plane, so that it is not sealed anew as long as it is right.
    pub fn keep_sealed(&self, sealed: &str) -> Result<(), EngineError> {
        self.folder.write(SEALED, sealed)
    }

    /// The kept document if it is of this cluster, for these recipients, and has the certificates of the folder; or a new one, in the
    /// name of the operator that `maker` gives, if there is one.
    pub fn sealed(
        &self,
        slot: &SlotName,
        plan: &Plan,
        recipients: &[Recipient],
        maker: &(dyn Fn() -> Option<Arc<OperatorIdentity>> + Sync),
    ) -> Result<Vec<u8>, EngineError> {
        let _one = self.sealing.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |reason: String| EngineError::Slot { slot: slot.0.clone(), reason };
        let id = plan
            .cluster_id
            .ok_or_else(|| failed("the plan has no cluster id; this is a fault of the recipe".to_owned()))?;
        // What the run signs later is sealed too.
        self.make(Authority::Registry, plan)?;
        for (name, provider) in &plan.slots {
            if let SlotProvider::Certificate(wanted) = provider {
                self.certificate_by(&name.0, wanted, &Wish::of(plan, wanted.authority))?;
            }
        }
        let files = self.files()?;
        let kept = self.folder.read(SEALED)?;
        let is_right = |kept: &SealedAuthorities| {
            let about = &kept.about;
            about.cluster_id == id
                && about.cluster == plan.cluster_name
                && about.recipients == recipients
                && about.certificates == files.certificates()
        };
        if let Some(text) = kept.filter(|text| SealedAuthorities::parse(text).is_ok_and(|kept| is_right(&kept))) {
            return Ok(text.as_bytes().to_vec());
        }
        let sealed = SealedAuthorities::seal((&plan.cluster_name, id), recipients, files, maker().as_deref());
        let text = sealed.map_err(|error| failed(error.to_string()))?.to_json();
        let text = text.map_err(|error| failed(error.to_string()))?;
        self.keep_sealed(&text)?;
        Ok(text.into_bytes())
    }

    /// The value of such a slot: a password, or with a user name the header of both. Whoever has the key has the password, and
    /// nobody gets from one to the other. Its form satisfies rules that ask for an upper-case letter, a lower-case one and a digit.
    pub fn derived_password(&self, purpose: &str, username: Option<&str>) -> Result<Zeroizing<String>, EngineError> {
        let key = Zeroizing::new(self.authority(Authority::Registry, &Wish::default())?.key);
        let text = Zeroizing::new(format!("kubexm password {purpose}\n{}", *key));
        let password = Zeroizing::new(format!("Kx1-{}", &Digest::of(text.as_bytes()).hex()[..40]));
        let Some(username) = username else { return Ok(password) };
        let pair = Zeroizing::new(format!("{username}:{}", *password));
        Ok(Zeroizing::new(format!("Basic {}", BASE64.encode(pair.as_bytes()))))
    }

    /// The CA of an authority. One that is renewed keeps its key and its name, so what it has signed stays valid.
    fn authority(&self, authority: Authority, wish: &Wish<'_>) -> Result<Pair, EngineError> {
        let file = Self::file_of(authority);
        let path = self.folder.path(&file);
        match self.read(&file)? {
            Some(pair) if wish.replaces(&pair) => {
                let ends = (self.now() - BACKDATED + validity(wish.valid_h)).unix_timestamp();
                let renewed = kubexm_ops::authority::renewed(&pair.certificates, &pair.key, ends);
                let certificates = renewed.map_err(|reason| EngineError::Pki { path, reason })?;
                let pair = Pair { certificates, ..pair };
                self.folder.write(&file, &Zeroizing::new(pair.to_pem()))?;
                return Ok(pair);
            }
            Some(pair) => return Ok(pair),
            None => {}
        }
        let failed = rcgen_failed(&path);
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished(&format!("KubeXM {} CA", word(authority)), &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        self.set_validity(&mut params, wish.valid_h);
        let key = KeyPair::generate().map_err(&failed)?;
        let certificate = params.self_signed(&key).map_err(&failed)?;
        let pair = Pair { certificates: certificate.pem(), key: key.serialize_pem() };
        self.folder.write(&file, &Zeroizing::new(pair.to_pem()))?;
        Ok(pair)
    }

    /// All that is sealed.
    pub fn files(&self) -> Result<PkiFiles, EngineError> {
        let mut files = PkiFiles::default();
        for name in self.folder.names()?.into_iter().filter(|name| is_pki_file(name)) {
            if let Some(pair) = self.read(&name)? {
                files.0.insert(name, pair.to_pem());
            }
        }
        Ok(files)
    }

    fn set_validity(&self, params: &mut CertificateParams, valid_h: Option<u32>) {
        let from = self.now() - BACKDATED;
        params.not_before = from;
        params.not_after = from + validity(valid_h);
    }
}

fn validity(hours: Option<u32>) -> Duration {
    hours.map_or(VALIDITY, |hours| Duration::hours(hours.into()))
}

/// How a plan wants an authority.
#[derive(Clone, Copy, Debug, Default)]
struct Wish<'p> {
    /// How long one that is made or renewed is valid, in hours.
    valid_h: Option<u32>,
    /// Digests of certificates that are renewed.
    renews: Option<&'p BTreeSet<Digest>>,
}

impl<'p> Wish<'p> {
    fn of(plan: &'p Plan, of: Authority) -> Self {
        let found = plan.slots.values().find_map(|provider| match provider {
            SlotProvider::Authority { authority, valid_h, replaces } if *authority == of => Some((valid_h, replaces)),
            _ => None,
        });
        found.map_or_else(Self::default, |(valid_h, renews)| Self { valid_h: *valid_h, renews: Some(renews) })
    }

    fn replaces(&self, pair: &Pair) -> bool {
        self.renews.is_some_and(|renews| renews.contains(&Digest::of(&pair.certificates)))
    }
}

/// What helps where an authority has ended.
const fn no_longer(authority: Authority) -> &'static str {
    match authority {
        Authority::Registry => {
            "`kubexm-install create --bundle B --new-registry-ca` makes another one, and what it signs"
        }
        Authority::Etcd => "`kubexm-install certs renew --authorities` renews it",
    }
}

fn rcgen_failed(path: &Path) -> impl Fn(rcgen::Error) -> EngineError {
    move |error| EngineError::Pki { path: path.to_owned(), reason: error.to_string() }
}

fn distinguished(common_name: &str, organizations: &[String]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    for organization in organizations {
        name.push(DnType::OrganizationName, organization.as_str());
    }
    name
}

const fn word(authority: Authority) -> &'static str {
    match authority {
        Authority::Registry => "registry",
        Authority::Etcd => "etcd",
    }
}

/// Existing clusters have files with these names: another name would mean another certificate.
fn file_prefix(wanted: &CertificateUse) -> String {
    let role = if wanted.sans.is_empty() { "client" } else { "server" };
    format!("{}-{role}", word(wanted.authority))
}

#[async_trait]
impl SlotSource for ClusterPki {
    async fn value(&self, name: &SlotName, provider: &SlotProvider, plan: &Plan) -> Result<Vec<u8>, EngineError> {
        match provider {
            SlotProvider::Authority { authority, .. } => {
                Ok(self.authority(*authority, &Wish::of(plan, *authority))?.certificates.into_bytes())
            }
            SlotProvider::Certificate(wanted) => {
                let pair = self.certificate_by(&name.0, wanted, &Wish::of(plan, wanted.authority))?;
                Ok(pair.0.into_bytes())
            }
            SlotProvider::CertificateKey { cert } => match plan.slots.get(cert) {
                Some(SlotProvider::Certificate(wanted)) => {
                    let pair = self.certificate_by(&cert.0, wanted, &Wish::of(plan, wanted.authority))?;
                    Ok(pair.1.into_bytes())
                }
                _ => Err(EngineError::Slot {
                    slot: name.0.clone(),
                    reason: format!("slot {} is not a certificate; this is a fault of the recipe", cert.0),
                }),
            },
            SlotProvider::DerivedPassword { purpose, username } => {
                Ok(self.derived_password(purpose, username.as_deref())?.as_bytes().to_vec())
            }
            SlotProvider::SealedAuthorities { recipients, .. } => self.sealed(name, plan, recipients, &|| None),
            SlotProvider::Secret { field } | SlotProvider::RegistryLogin { field, .. } => Err(EngineError::Slot {
                slot: name.0.clone(),
                reason: format!("{field} is not a certificate; this is a fault of the program"),
            }),
            SlotProvider::JoinToken { .. }
            | SlotProvider::CaCertHash { .. }
            | SlotProvider::UploadKey { .. }
            | SlotProvider::KubeletClient { .. }
            | SlotProvider::SharedFile { .. }
            | SlotProvider::RequestKey { .. }
            | SlotProvider::BackupKey
            | SlotProvider::BackupFile { .. }
            | SlotProvider::AdminKubeconfig { .. } => Err(EngineError::Slot {
                slot: name.0.clone(),
                reason: "it is made on a host, not here; this is a fault of the program".to_owned(),
            }),
        }
    }
}
