//! A CA whose key stays with the site: what is not signed is refused before a host is changed, and keys stay in the home until a run sends them.

use std::fs;
use std::path::Path;

use kubexm_session::{ClusterOptions, Home, RequestOptions, RequestState, RequestsMade};
use kubexm_spec::{ExitCode, ExitError as _};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;
use time::OffsetDateTime;

use crate::bundle::{cluster_yaml, write_bundle_with};
use crate::secrets::holding;
use crate::sessions::Site;

/// The site's CA, its people, and the folder that they share with the operator.
struct SiteCa {
    key: KeyPair,
    params: CertificateParams,
    pem: String,
    folder: TempDir,
}

impl SiteCa {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "clusters of the site");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.not_after = OffsetDateTime::now_utc() + time::Duration::days(3000);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { key, params, pem, folder: tempfile::tempdir().unwrap() }
    }

    fn site(&self) -> Site {
        let ca = format!("v1.34.4, ca: {{certFile: ca.crt, certificatesFolder: {}}}", self.folder.path().display());
        let yaml = cluster_yaml("red", &["red1", "red2"]).replace("v1.34.4", &ca);
        let site =
            Site::of("red", &["red1", "red2"], &yaml, |folder, yaml| write_bundle_with(folder, yaml, Some(&self.pem)));
        fs::write(site.folder.path().join("ca.crt"), &self.pem).unwrap();
        site
    }

    /// Signs every request in the folder whose name has this.
    fn sign(&self, part: &str, days: i64) {
        for entry in fs::read_dir(self.folder.path()).unwrap().flatten() {
            let path = entry.path();
            let is_wanted = path.extension().is_some_and(|end| end == "csr") && path.to_string_lossy().contains(part);
            if is_wanted {
                let mut csr = CertificateSigningRequestParams::from_pem(&fs::read_to_string(&path).unwrap()).unwrap();
                csr.params.not_before = OffsetDateTime::now_utc() - time::Duration::hours(1);
                csr.params.not_after = OffsetDateTime::now_utc() + time::Duration::days(days);
                let pem = csr.signed_by(&Issuer::from_params(&self.params, &self.key)).unwrap().pem();
                fs::write(path.with_extension("crt"), pem).unwrap();
            }
        }
    }
}

fn options() -> RequestOptions {
    RequestOptions { out: None, hosts: Vec::new(), within_s: 90 * 86_400, force: false }
}

fn requested(site: &Site, options: &RequestOptions) -> RequestsMade {
    let session = site.session();
    let file = Some(site.folder.path().join("cluster.yaml"));
    let source = session.cluster(&ClusterOptions { file, ..ClusterOptions::default() }).unwrap();
    session.request_certificates(source.cluster(), options).unwrap()
}

fn new(made: &RequestsMade) -> Vec<&str> {
    made.requests.iter().filter(|one| one.state == RequestState::New).map(|one| one.request.name.as_str()).collect()
}

/// A line of a key that the home has.
fn key(home: &Path) -> String {
    let folder = home.join("clusters/red/requests");
    let keys = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let first = keys.filter(|path| path.extension().is_some_and(|end| end == "key")).min().unwrap();
    fs::read_to_string(first).unwrap().lines().nth(1).unwrap().to_owned()
}

async fn refused(site: &Site, words: &[&str]) {
    let before = site.hosts.fleet.snapshot();
    let error = site.create().await.err().unwrap();
    assert_eq!(error.exit_code(), ExitCode::Preflight, "{error}");
    let text = error.to_string();
    for said in words {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert_eq!(site.hosts.fleet.snapshot(), before);
    assert!(site.home.cluster("red").run_ids().unwrap().is_empty());
}

#[tokio::test]
async fn a_cluster_is_created_from_what_the_site_has_signed_and_its_keys_stay_out_of_everything_else() {
    let ca = SiteCa::new();
    let site = ca.site();
    refused(
        &site,
        &[
            "red1-apiserver.crt is not there",
            "red2-kubelet.crt is not there",
            "this home has made no requests",
            "certs requests",
        ],
    )
    .await;
    let made = requested(&site, &options());
    assert_eq!(made.requests.len(), 8, "{made:?}");
    assert_eq!(new(&made).len(), 8);
    assert!(new(&requested(&site, &options())).is_empty(), "a second run keeps what is there");
    let list = fs::read_to_string(ca.folder.path().join("requests.txt")).unwrap();
    assert!(
        list.contains("red1-apiserver.csr") && list.contains("openssl x509 -req") && list.contains("for 365d"),
        "{list}"
    );
    let extensions = fs::read_to_string(ca.folder.path().join("red1-apiserver.ext")).unwrap();
    assert!(
        extensions.contains("extendedKeyUsage=serverAuth") && extensions.contains("DNS:kubernetes.default.svc"),
        "{extensions}"
    );
    ca.sign("", 365);
    let made = requested(&site, &options());
    assert_eq!(made.unsigned(), 0, "{made:?}");
    let ended = site.create().await.unwrap();
    assert!(ended.is_success(), "{:#?}", ended.run);
    let secret = key(&site.folder.path().join("home"));
    for folder in [site.folder.path(), ca.folder.path()] {
        let mut found = Vec::new();
        holding(folder, &secret, &mut found);
        assert!(
            found.iter().all(|path| path.contains("/clusters/red/requests/") && path.ends_with(".key")),
            "{found:?}"
        );
    }
    assert!(!site.events().contains(&secret));
    let again = site.create().await.unwrap();
    assert!(again.is_success(), "{:#?}", again.run);
    // Nobody needs them any more.
    fs::remove_dir_all(ca.folder.path()).unwrap();
    let again = site.create().await.unwrap();
    assert!(again.is_success(), "{:#?}", again.run);
}

#[tokio::test]
async fn certificates_of_others_and_for_others_are_refused_before_a_host_is_changed() {
    let (ca, other) = (SiteCa::new(), SiteCa::new());
    let site = ca.site();
    requested(&site, &options());
    ca.sign("", 365);
    let path = |name: &str| ca.folder.path().join(format!("red1-{name}.crt"));
    let fine: Vec<u8> = fs::read(path("admin")).unwrap();
    fs::copy(path("scheduler"), path("admin")).unwrap();
    // Everything that is wrong is said at once.
    fs::write(path("kubelet"), "hunter2").unwrap();
    refused(&site, &["red1-admin.crt: its common name is", "red1-kubelet.crt: it cannot be read"]).await;
    fs::write(path("admin"), fine).unwrap();
    ca.sign("kubelet", 30);
    refused(&site, &["red1-kubelet.crt: it ends on"]).await;
    ca.sign("kubelet", 365);
    // Another CA of the same name, in the same folder.
    let requests = ca.folder.path().to_owned();
    let impostor = SiteCa { folder: TempDir::new().unwrap(), ..other };
    for entry in fs::read_dir(&requests).unwrap().flatten() {
        fs::copy(entry.path(), impostor.folder.path().join(entry.file_name())).unwrap();
    }
    impostor.sign("red2-kubelet", 365);
    fs::copy(impostor.folder.path().join("red2-kubelet.crt"), requests.join("red2-kubelet.crt")).unwrap();
    refused(&site, &["red2-kubelet.crt: it is not signed by the CA"]).await;
    ca.sign("", 365);
    // Its keys are in the home that has made the requests.
    let elsewhere = Site { home: Home::new(site.folder.path().join("other-home"), None, None), ..site };
    refused(&elsewhere, &["its key is not here", "has made no requests"]).await;
}

#[test]
fn only_what_ends_soon_or_is_asked_for_is_requested_anew() {
    let ca = SiteCa::new();
    let site = ca.site();
    requested(&site, &options());
    ca.sign("", 365);
    ca.sign("admin", 60);
    let made = requested(&site, &options());
    assert_eq!(new(&made), ["red1-admin", "red1-super-admin"]);
    let made = requested(&site, &options());
    assert!(new(&made).is_empty() && made.unsigned() == 2, "what waits for a signature is not made once more");
    ca.sign("admin", 365);
    let one = RequestOptions { hosts: vec!["red2".to_owned()], force: true, ..options() };
    assert_eq!(new(&requested(&site, &one)), ["red2-kubelet"]);
    let made = requested(&site, &options());
    assert_eq!(made.unsigned(), 1);
    assert_eq!(made.requests.len(), 8, "those of other hosts stay");
}

#[test]
fn a_cluster_whose_ca_is_kubeadms_has_nothing_to_request() {
    let site = Site::new("red", &["red1"], kubexm_session::Answer::Yes);
    let session = site.session();
    let file = Some(site.folder.path().join("cluster.yaml"));
    let source = session.cluster(&ClusterOptions { file, ..ClusterOptions::default() }).unwrap();
    let error = session.request_certificates(source.cluster(), &options()).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Config);
    assert!(error.to_string().contains("certificatesFolder"), "{error}");
}
