//! What the site's CA has signed for a cluster, where its key stays with the site: read from the folder that cluster.yaml names, and
//! compared with what was requested.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use kubexm_engine::requests::Requests;
use kubexm_engine::signed::{Signed, Wanted};
use kubexm_files::InputError;
use kubexm_plan::CertificateRequest;
use kubexm_recipes::{SignedCertificate, SignedCertificates, requests};
use kubexm_spec::cluster::{Cluster, ClusterCa, one_certificate};
use kubexm_spec::{Digest, one_line};

use crate::home::{ClusterHome, Home};

/// The most bytes of a certificate's file: a chain that a site's CA sends with it is named as such, not as too long.
const LONGEST: u64 = 256 << 10;

/// The command that mends most of it.
pub(crate) const MEND: &str = "run `kubexm-install certs requests -f cluster.yaml`, let your site's CA sign what it names, and lay the \
                               certificates into the folder";

/// Reads and compares every certificate of the cluster. `ca` is the text of `certFile`. Nothing of this fails: whoever needs one of them
/// says what is wrong with it.
pub(crate) fn read(home: &Home, cluster: &Cluster, ca: Option<&str>, now: SystemTime) -> Option<SignedCertificates> {
    let of_site = cluster.external_ca()?;
    let own = home.cluster(&cluster.name);
    let made = Requests::view(&own.requests());
    let ca = ca.and_then(|text| one_certificate(text).ok());
    let mut found = SignedCertificates { ca, ..SignedCertificates::default() };
    match made.service_account() {
        Ok(account) => found.service_account = account,
        Err(error) => drop(found.faults.insert(SERVICE_ACCOUNT.to_owned(), vec![error.to_string()])),
    }
    let folder = folder(home, of_site);
    let Ok(wanted) = requests::requests(cluster) else { return Some(found) };
    for request in wanted {
        let compare = Compare { made: &made, ca: found.ca.as_deref(), cluster, now };
        match compare.read(&folder, &request) {
            Ok(signed) => drop(found.certificates.insert(request.name, signed)),
            Err(faults) => drop(found.faults.insert(request.name, faults)),
        }
    }
    Some(found)
}

/// The name under which a fault of the key of service accounts is reported.
pub(crate) const SERVICE_ACCOUNT: &str = "service-account";

/// The folder of requests and certificates.
pub(crate) fn folder(home: &Home, ca: &ClusterCa) -> PathBuf {
    home.expand(ca.certificates.as_deref().unwrap_or(Path::new("")))
}

/// The file of a certificate.
pub(crate) fn file(folder: &Path, request: &str) -> PathBuf {
    folder.join(format!("{request}.crt"))
}

/// A certificate's text; none if there is no such file.
pub(crate) fn text_of(path: &Path) -> Result<Option<String>, String> {
    match kubexm_files::read_text(path, LONGEST) {
        Ok(text) => Ok(Some(text)),
        Err(InputError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(kubexm_spec::error_chain(&error)),
    }
}

struct Compare<'a> {
    made: &'a Requests,
    ca: Option<&'a str>,
    cluster: &'a Cluster,
    now: SystemTime,
}

impl Compare<'_> {
    fn read(&self, folder: &Path, request: &CertificateRequest) -> Result<SignedCertificate, Vec<String>> {
        let path = file(folder, &request.name);
        let one = |why: String| vec![why];
        let Some(text) = text_of(&path).map_err(one)? else {
            return Err(vec![format!("{} is not there: it is not signed yet", path.display())]);
        };
        let ca =
            self.ca.ok_or_else(|| vec!["the certificate of spec.kubernetes.ca.certFile cannot be read".to_owned()])?;
        let has_key = |public: Digest| self.made.has_key(public).unwrap_or(false);
        let valid_s = self.cluster.certificate_validity().soon_s();
        let wanted = Wanted { ca, now: self.now, valid_s, has_key: &has_key };
        match wanted.check(request, &text) {
            Ok(Signed { pem, public, ends, leaf }) => Ok(SignedCertificate { pem, public, ends, leaf }),
            Err(faults) => Err(faults
                .into_iter()
                .map(|fault| format!("{}: {}", path.display(), one_line(&fault.to_string())))
                .collect()),
        }
    }
}

/// What is wrong with what a new host of the cluster gets, each by name.
pub(crate) fn faults_of(found: &SignedCertificates, cluster: &Cluster, host: &str) -> Vec<String> {
    let requests = match cluster.host(host).map(|host| requests::of_host(cluster, host)) {
        Some(Ok(requests)) => requests,
        Some(Err(error)) => return vec![error.to_string()],
        None => Vec::new(),
    };
    requests.iter().filter_map(|request| found.faults.get(&request.name)).flatten().cloned().collect()
}

impl ClusterHome {
    /// Keys and requests of certificates that the site's CA signs.
    pub fn requests(&self) -> PathBuf {
        self.folder.join("requests")
    }
}
