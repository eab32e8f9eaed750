//! Requests for certificates that a site's CA signs, and their keys: `clusters/<name>/requests` on the controller, readable by the owner
//! only. A key is found by its public key, so that a certificate finds its own whenever it was requested.

use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::{CertificateRequest, KeyForm};
use kubexm_spec::Digest;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, PublicKeyData as _,
};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::EngineError;
use crate::pki_folder::PkiFolder;

const LIST: &str = "requests.json";
const SCHEMA: &str = "kubexm.io/requests/v1";

/// The folder of requests of a cluster. Used under the lock of the cluster's folder.
#[derive(Clone, Debug)]
pub struct Requests {
    folder: PkiFolder,
}

/// What was requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MadeRequest {
    /// The certificate.
    pub request: CertificateRequest,
    /// Digest of its public key.
    pub public: Digest,
    /// The request (PKCS#10) in PEM.
    pub csr: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct List {
    schema: String,
    /// Of the key that signs tokens of service accounts; none before the first request.
    service_account: Option<Digest>,
    requests: Vec<MadeRequest>,
}

impl Requests {
    /// Opens or creates the folder.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn open(dir: &Path) -> Result<Self, EngineError> {
        Ok(Self { folder: PkiFolder::open(dir)? })
    }

    /// The folder as it is; nothing is written to it.
    pub fn view(dir: &Path) -> Self {
        Self { folder: PkiFolder::view(dir, true) }
    }

    /// What was requested so far.
    ///
    /// # Errors
    /// The list is damaged.
    pub fn made(&self) -> Result<Vec<MadeRequest>, EngineError> {
        Ok(self.list()?.requests)
    }

    /// Makes a key and a request for each certificate that has none, or that is requested otherwise than before, or that is in `anew`.
    /// Returns all of them in the given order, with the names of those that were made now. What is not among `wanted` is forgotten; keys
    /// stay, since a certificate of theirs may still come.
    ///
    /// # Errors
    /// The list is damaged, or the disk refuses.
    pub fn make(
        &self,
        wanted: &[CertificateRequest],
        anew: &BTreeSet<String>,
    ) -> Result<(Vec<MadeRequest>, BTreeSet<String>), EngineError> {
        let mut list = self.list()?;
        let mut made = BTreeSet::new();
        let mut all = Vec::new();
        for request in wanted {
            let kept = list.requests.iter().find(|one| one.request == *request && !anew.contains(&request.name));
            all.push(match kept {
                Some(kept) if self.has_key(kept.public)? => kept.clone(),
                _ => {
                    made.insert(request.name.clone());
                    self.request(request)?
                }
            });
        }
        let service_account = match list.service_account {
            Some(public) if self.has_key(public)? => public,
            _ => self.new_key()?.1,
        };
        list = List { schema: SCHEMA.to_owned(), service_account: Some(service_account), requests: all };
        let text = serde_json::to_string_pretty(&list).map_err(|error| self.damaged(&error.to_string()))?;
        // After the keys: a request without its key would be one for nothing.
        self.folder.write(LIST, &(text + "\n"))?;
        Ok((list.requests, made))
    }

    /// Whether the key of a public key is here.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn has_key(&self, public: Digest) -> Result<bool, EngineError> {
        Ok(self.folder.read(&file_of(public))?.is_some())
    }

    /// The key of a public key, written down in this form; none if it is not here.
    ///
    /// # Errors
    /// It cannot be read, or is not the one that its file says.
    pub fn key(&self, public: Digest, form: KeyForm) -> Result<Option<Zeroizing<Vec<u8>>>, EngineError> {
        let Some(text) = self.folder.read(&file_of(public))? else { return Ok(None) };
        self.pair(&text, public)?;
        Ok(Some(Zeroizing::new(match form {
            KeyForm::Pem => text.as_bytes().to_vec(),
            KeyForm::Base64 => BASE64.encode(text.as_bytes()).into_bytes(),
        })))
    }

    /// The public key (PEM) of service accounts' tokens, and its digest; none before the first request.
    ///
    /// # Errors
    /// The list or the key is damaged.
    pub fn service_account(&self) -> Result<Option<(String, Digest)>, EngineError> {
        let Some(public) = self.list()?.service_account else { return Ok(None) };
        let Some(text) = self.folder.read(&file_of(public))? else { return Ok(None) };
        Ok(Some((self.pair(&text, public)?.public_key_pem(), public)))
    }

    fn pair(&self, text: &str, public: Digest) -> Result<KeyPair, EngineError> {
        let pair = KeyPair::from_pem(text).ok().filter(|pair| Digest::of(pair.subject_public_key_info()) == public);
        pair.ok_or_else(|| EngineError::Requests {
            path: self.folder.path(&file_of(public)),
            reason: "it is not the key that its name says".to_owned(),
        })
    }

    fn list(&self) -> Result<List, EngineError> {
        let Some(text) = self.folder.read(LIST)? else { return Ok(List::default()) };
        let list: List = serde_json::from_str(&text).map_err(|error| self.damaged(&error.to_string()))?;
        match list.schema == SCHEMA {
            true => Ok(list),
            false => Err(self.damaged(&format!("it is of schema {:?}, this program reads {SCHEMA}", list.schema))),
        }
    }

    fn damaged(&self, reason: &str) -> EngineError {
        EngineError::Requests { path: self.folder.path(LIST), reason: reason.to_owned() }
    }

    fn request(&self, request: &CertificateRequest) -> Result<MadeRequest, EngineError> {
        let (pair, public) = self.new_key()?;
        let failed = |error: rcgen::Error| self.damaged(&format!("{}: {error}", request.name));
        let mut params = CertificateParams::new(request.sans.as_slice()).map_err(failed)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, request.common_name.as_str());
        for organization in &request.organizations {
            params.distinguished_name.push(DnType::OrganizationName, organization.as_str());
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match request.is_server() {
            true => ExtendedKeyUsagePurpose::ServerAuth,
            false => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        let csr = params.serialize_request(&pair).and_then(|csr| csr.pem()).map_err(failed)?;
        Ok(MadeRequest { request: request.clone(), public, csr })
    }

    /// ECDSA on P-256, which every program of a cluster takes, also for tokens (ES256).
    fn new_key(&self) -> Result<(KeyPair, Digest), EngineError> {
        let pair = KeyPair::generate().map_err(|error| self.damaged(&error.to_string()))?;
        let public = Digest::of(pair.subject_public_key_info());
        self.folder.write(&file_of(public), &Zeroizing::new(pair.serialize_pem()))?;
        Ok((pair, public))
    }
}

fn file_of(public: Digest) -> String {
    format!("{}.key", public.hex())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use kubexm_plan::Requested;
    use rcgen::{BasicConstraints, CertificateSigningRequestParams, IsCa, Issuer};

    use super::*;
    use crate::signed::{SignedFault, Wanted};

    fn request(name: &str, sans: &[&str]) -> CertificateRequest {
        let of = if sans.is_empty() { Requested::Admin } else { Requested::Apiserver };
        CertificateRequest {
            name: name.to_owned(),
            host: "node1".to_owned(),
            of,
            common_name: "kubernetes-admin".to_owned(),
            organizations: vec!["kubeadm:cluster-admins".to_owned()],
            sans: sans.iter().map(|one| (*one).to_owned()).collect(),
        }
    }

    #[test]
    fn a_second_run_keeps_what_fits_and_makes_what_is_new_or_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let requests = Requests::open(&folder.path().join("requests")).expect("requests");
        let wanted = [request("a", &["10.0.0.1", "node1"]), request("b", &[])];
        let none = BTreeSet::new();
        let (first, made) = requests.make(&wanted, &none).expect("made");
        assert_eq!(made.len(), 2);
        assert_eq!(requests.make(&wanted, &none).expect("made"), (first.clone(), none.clone()));
        let account = requests.service_account().expect("a key").expect("a key");
        assert!(account.0.starts_with("-----BEGIN PUBLIC KEY-----"));
        let other = [request("a", &["10.0.0.2", "node1"]), wanted[1].clone(), request("c", &[])];
        let (second, made) = requests.make(&other, &BTreeSet::from(["b".to_owned()])).expect("made");
        assert_eq!(made, ["a", "b", "c"].map(str::to_owned).into());
        assert!(first.iter().zip(&second).all(|(was, is)| was.public != is.public));
        assert_eq!(requests.service_account().expect("a key"), Some(account));
        // Those of certificates that are on their way still fit them.
        for one in first.iter().chain(&second) {
            let key = requests.key(one.public, KeyForm::Pem).expect("a key").expect("a key");
            assert!(key.starts_with(b"-----BEGIN PRIVATE KEY-----"));
            let path = folder.path().join("requests").join(file_of(one.public));
            assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(Requests::view(&folder.path().join("requests")).made().expect("a list"), second);
        assert_eq!(Requests::view(&folder.path().join("none")).made().expect("no list"), []);
    }

    #[test]
    fn what_is_signed_from_a_request_is_what_was_requested() {
        let folder = tempfile::tempdir().expect("a folder");
        let requests = Requests::open(folder.path()).expect("requests");
        let (ca_key, mut ca) = (KeyPair::generate().expect("a key"), CertificateParams::default());
        ca.distinguished_name.push(DnType::CommonName, "Site");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_pem = ca.self_signed(&ca_key).expect("a CA").pem();
        let wanted = [request("a", &["10.0.0.1", "node1"]), request("b", &[])];
        let (made, _) = requests.make(&wanted, &BTreeSet::new()).expect("made");
        let has_key = |public| requests.has_key(public).expect("a folder");
        let compare = Wanted { ca: &ca_pem, now: std::time::SystemTime::now(), valid_s: 86_400, has_key: &has_key };
        for one in &made {
            let csr = CertificateSigningRequestParams::from_pem(&one.csr).expect("a request");
            let pem = csr.signed_by(&Issuer::from_params(&ca, &ca_key)).expect("a certificate").pem();
            let signed = compare.check(&one.request, &pem).unwrap_or_else(|faults| panic!("{faults:?}"));
            assert_eq!(signed.public, one.public);
            let other = Requests::open(&folder.path().join("other")).expect("requests");
            let has_key = |public| other.has_key(public).expect("a folder");
            let faults = Wanted { has_key: &has_key, ..compare }.check(&one.request, &pem);
            assert_eq!(faults, Err(vec![SignedFault::NoKey]));
        }
    }

    #[test]
    fn a_key_under_another_name_and_a_damaged_list_are_named_and_not_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let requests = Requests::open(folder.path()).expect("requests");
        let (made, _) = requests.make(&[request("a", &[])], &BTreeSet::new()).expect("made");
        let other = KeyPair::generate().expect("a key").serialize_pem();
        std::fs::write(folder.path().join(file_of(made[0].public)), &other).expect("a file");
        let error = requests.key(made[0].public, KeyForm::Base64).expect_err("another key").to_string();
        assert!(error.contains("not the key that its name says") && !error.contains(&other[30..60]), "{error}");
        std::fs::write(folder.path().join(LIST), "{}").expect("a file");
        assert!(requests.made().expect_err("damaged").to_string().contains(LIST));
    }
}
