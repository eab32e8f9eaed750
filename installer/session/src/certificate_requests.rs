//! `certs requests`: keys and requests for what a site's CA signs. Only this machine's home and one folder are changed; no host is asked.

use std::fs;
use std::path::{Path, PathBuf};

use kubexm_engine::clock::rfc3339;
use kubexm_engine::requests::{MadeRequest, Requests};
use kubexm_engine::{ClusterLock, signed};
use kubexm_plan::CertificateRequest;
use kubexm_recipes::{RecipeError, SignedCertificates, requests};
use kubexm_spec::cluster::Validity;
use serde_json::{Value, json};

use crate::bundle::cluster_file::ClusterFile;
use crate::bundle::cluster_source::{ClusterSource, check_hosts};
use crate::error::SessionError;
use crate::session::Session;
use crate::site_certificates::{file, folder, read, text_of};

/// Which certificates are requested, and where the requests are written.
#[derive(Clone, Debug)]
pub struct RequestOptions {
    /// Another folder for the requests than that of cluster.yaml.
    pub out: Option<PathBuf>,
    /// Only those of these hosts; all, if it is empty.
    pub hosts: Vec<String>,
    /// A certificate that ends within so many seconds is requested anew, with another key.
    pub within_s: i64,
    /// All are requested anew.
    pub force: bool,
}

/// What was requested, and what is signed already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestsMade {
    /// `metadata.name`.
    pub cluster: String,
    /// Where the requests are.
    pub folder: PathBuf,
    /// Where the signed certificates are looked for.
    pub certificates: PathBuf,
    /// How long certificates are wanted to be valid.
    pub validity: Validity,
    /// One for each certificate.
    pub requests: Vec<Requested>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requested {
    pub request: CertificateRequest,
    pub state: RequestState,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestState {
    /// It was made now.
    New,
    /// It was made earlier, and is not signed.
    Waiting,
    /// It is signed; the end of the certificate in seconds of Unix time.
    Signed(i64),
}

const SCHEMA: &str = "kubexm.io/certificate-requests/v1";

impl Session<'_> {
    /// Makes a key and a request for each certificate that has none, and writes all requests into a folder.
    ///
    /// # Errors
    /// The key of the cluster's CA does not stay with the site, another program has the cluster's lock, or the disk refuses.
    pub fn request_certificates(
        &self,
        cluster: &ClusterFile,
        options: &RequestOptions,
    ) -> Result<RequestsMade, SessionError> {
        let ca = cluster.external_ca().ok_or_else(|| RecipeError::NoRequests { cluster: cluster.name.clone() })?;
        check_hosts(cluster, &options.hosts)?;
        let home = self.home.cluster(&cluster.name);
        let _lock = ClusterLock::take(&home.folder, &cluster.name, &self.holder("certs requests", &cluster.name))?;
        let certificates = folder(self.home, ca);
        let out = options.out.clone().unwrap_or_else(|| certificates.clone());
        let store = Requests::open(&home.requests())?;
        let wanted = requests::requests(cluster)?;
        let chosen = |request: &CertificateRequest| options.hosts.is_empty() || options.hosts.contains(&request.host);
        let before = store.made()?;
        // Only what is chosen is made: of the others what there is stays as it is.
        let all: Vec<CertificateRequest> = wanted
            .into_iter()
            .filter_map(|request| match chosen(&request) {
                true => Some(request),
                false => before.iter().find(|one| one.request.name == request.name).map(|one| one.request.clone()),
            })
            .collect();
        let anew = before
            .iter()
            .filter(|one| {
                chosen(&one.request) && (options.force || self.ends_soon(&certificates, one, options.within_s))
            })
            .map(|one| one.request.name.clone())
            .collect();
        let (made, new) = store.make(&all, &anew)?;
        let made: Vec<MadeRequest> = made.into_iter().filter(|one| chosen(&one.request)).collect();
        let requests = made.iter().map(|one| Requested {
            request: one.request.clone(),
            state: match signed_as(&certificates, one) {
                Some(ends) => RequestState::Signed(ends),
                None if new.contains(&one.request.name) => RequestState::New,
                None => RequestState::Waiting,
            },
        });
        let found = RequestsMade {
            cluster: cluster.name.clone(),
            validity: cluster.certificate_validity(),
            requests: requests.collect(),
            folder: out,
            certificates,
        };
        found.write(&made)?;
        Ok(found)
    }

    /// Whether the certificate of this very request ends soon. One of an earlier request says that this one waits.
    fn ends_soon(&self, certificates: &Path, made: &MadeRequest, within_s: i64) -> bool {
        signed_as(certificates, made).is_some_and(|ends| ends.saturating_sub(self.unix_time()) < within_s)
    }
}

/// When the certificate of this request ends; none if it is not there.
fn signed_as(certificates: &Path, made: &MadeRequest) -> Option<i64> {
    let text = text_of(&file(certificates, &made.request.name)).ok().flatten()?;
    signed::of_text(&text).filter(|(public, _)| *public == made.public).map(|(_, ends)| ends)
}

impl RequestsMade {
    /// For programs.
    pub fn document(&self) -> Value {
        let of = |one: &Requested| {
            let request = &one.request;
            let (state, ends) = match one.state {
                RequestState::New => ("new", None),
                RequestState::Waiting => ("waiting", None),
                RequestState::Signed(ends) => ("signed", Some(rfc3339(ends))),
            };
            json!({
                "name": request.name, "host": request.host, "about": request.of.about(), "state": state, "ends": ends,
                "request": format!("{}.csr", request.name), "extensions": format!("{}.ext", request.name),
                "certificate": format!("{}.crt", request.name), "commonName": request.common_name,
                "organizations": request.organizations, "subjectAlternativeNames": request.sans,
                "keyUsage": ["digitalSignature"], "extendedKeyUsage": [request.usage()],
            })
        };
        json!({
            "schema": SCHEMA, "cluster": self.cluster, "folder": self.folder, "certificatesFolder": self.certificates,
            "validity": self.validity, "requests": self.requests.iter().map(of).collect::<Vec<_>>(),
        })
    }

    /// How many are not signed.
    pub fn unsigned(&self) -> usize {
        self.requests.iter().filter(|one| !matches!(one.state, RequestState::Signed(_))).count()
    }

    fn write(&self, made: &[MadeRequest]) -> Result<(), SessionError> {
        let folder = &self.folder;
        fs::create_dir_all(folder).map_err(|error| SessionError::disk("create", folder, &error))?;
        for one in made {
            self.put(&format!("{}.csr", one.request.name), &one.csr)?;
            self.put(&format!("{}.ext", one.request.name), &extensions(&one.request))?;
        }
        let document = serde_json::to_string_pretty(&self.document()).unwrap_or_default();
        self.put("requests.json", &(document + "\n"))?;
        self.put("requests.txt", &self.list())
    }

    /// For the people who sign.
    fn list(&self) -> String {
        let mut text = format!(
            "Certificates of the Kubernetes cluster {}\n\n\
             Each request (NAME.csr) is to be signed by the cluster's own CA, for {}, with the subject that it has and the extensions in NAME.ext.\n\
             The certificate belongs into NAME.crt, in PEM, without a chain. The subject is a login of the cluster: change nothing of it.\n\n\
             With OpenSSL:\n\
             \n  for r in *.csr; do n=${{r%.csr}}; openssl x509 -req -in $r -CA ca.crt -CAkey ca.key -days {} -sha256 -extfile $n.ext -out $n.crt; done\n",
            self.cluster,
            self.validity,
            self.validity.hours().div_ceil(24),
        );
        for one in &self.requests {
            let request = &one.request;
            let state = match one.state {
                RequestState::Signed(ends) => format!("signed, ends {}", rfc3339(ends)),
                RequestState::New | RequestState::Waiting => "to be signed".to_owned(),
            };
            text.push_str(&format!(
                "\n{}.csr: {} ({}); {state}\n  subject: {}\n  extended key usage: {}\n",
                request.name,
                request.of.about(),
                request.host,
                request.subject(),
                request.usage()
            ));
            if !request.sans.is_empty() {
                text.push_str(&format!("  subject alternative names: {}\n", request.sans.join(", ")));
            }
        }
        text
    }

    fn put(&self, name: &str, text: &str) -> Result<(), SessionError> {
        let path = self.folder.join(name);
        let partial = self.folder.join(format!(".{name}.partial"));
        let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, &path));
        written.map_err(|error| SessionError::disk("write", &path, &error))
    }
}

/// A file of extensions for OpenSSL (x509v3_config(5)).
fn extensions(request: &CertificateRequest) -> String {
    let mut text = format!(
        "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage={}\n",
        request.usage()
    );
    if !request.sans.is_empty() {
        let name = |name: &String| match name.parse::<std::net::IpAddr>() {
            Ok(ip) => format!("IP:{ip}"),
            Err(_) => format!("DNS:{name}"),
        };
        let names: Vec<String> = request.sans.iter().map(name).collect();
        text.push_str(&format!("subjectAltName={}\n", names.join(",")));
    }
    text
}

/// What the site has signed for a cluster that runs, whose cluster.yaml may be given without a bundle: the CA's certificate is beside it then.
pub(crate) fn of_source(session: &Session<'_>, source: &ClusterSource) -> Option<SignedCertificates> {
    match source {
        ClusterSource::Bundle(opened) => opened.signed().cloned(),
        ClusterSource::File(file) => {
            let path = file.beside(&file.external_ca()?.cert_file);
            let ca = path.and_then(|path| text_of(&path).ok().flatten());
            read(session.home, file, ca.as_deref(), session.clock.now())
        }
    }
}
