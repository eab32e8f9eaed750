//! What the controller asks the user's registry: Debian's distribution, with TLS and htpasswd.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kubexm_engine::registry_check::{Answered, UserRegistry, WantedImage, Wrong, ask};
use kubexm_spec::Digest;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

const PROGRAM: &str = "/usr/bin/docker-registry";
/// `user:hunter2`, hashed by libxcrypt.
const HTPASSWD: &str = "user:$2b$08$abcdefghijklmnopqrstuubrRm36/PDk26QhAv8UvDI2bBcBcJSqe\n";
const REPOSITORY: &str = "mirror/registry.k8s.io/pause";

struct Registry {
    child: Child,
    address: String,
    ca: String,
    folder: tempfile::TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Registry {
    fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        assert!(Path::new(PROGRAM).is_file(), "{PROGRAM} is needed: install docker-registry");
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
            folder.path().join(name).display().to_string()
        };
        let config = format!(
            "version: 0.1\nstorage:\n  filesystem: {{rootdirectory: {}}}\nauth:\n  htpasswd: {{realm: test, path: {}}}\n\
             http:\n  addr: 127.0.0.1:0\n  tls: {{certificate: {}, key: {}}}\n",
            folder.path().join("data").display(),
            file("htpasswd", HTPASSWD),
            file("crt", &cert.pem()),
            file("key", &key.serialize_pem()),
        );
        let config = file("config.yml", &config);
        let mut command = Command::new(PROGRAM);
        let mut child = command.args(["serve", &config]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (found, addresses) = std::sync::mpsc::channel();
        let log = BufReader::new(child.stderr.take().unwrap());
        // Read to its end, or the registry dies of SIGPIPE.
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once("listening on ") {
                    let _ = found.send(rest.split([',', ' ', '"']).next().unwrap_or_default().to_owned());
                }
            }
        });
        let address = addresses.recv_timeout(Duration::from_secs(60)).unwrap();
        Self { child, address, ca: ca.pem(), folder }
    }

    /// Puts a manifest into its storage, with tags.
    fn put(&self, repository: &str, bytes: &str, tags: &[&str]) -> Digest {
        let (digest, root) = (Digest::of(bytes), self.folder.path().join("data/docker/registry/v2"));
        let hex = digest.hex();
        let write = |path: String, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(format!("blobs/sha256/{}/{hex}/data", &hex[..2]), bytes);
        let manifests = format!("repositories/{repository}/_manifests");
        write(format!("{manifests}/revisions/sha256/{hex}/link"), &digest.to_string());
        write(format!("repositories/{repository}/_layers/sha256/{hex}/link"), &digest.to_string());
        for tag in tags {
            write(format!("{manifests}/tags/{tag}/current/link"), &digest.to_string());
            write(format!("{manifests}/tags/{tag}/index/sha256/{hex}/link"), &digest.to_string());
        }
        digest
    }

    fn at(&self, password: Option<&str>) -> UserRegistry {
        UserRegistry {
            address: self.address.clone(),
            ca: Some(self.ca.clone().into_bytes()),
            login: password.map(|password| ("user".to_owned(), password.to_owned().into())),
            plain_http: false,
        }
    }
}

fn manifest(number: u32) -> String {
    format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"config\":{{\"mediaType\":\
         \"application/vnd.oci.image.config.v1+json\",\"digest\":\"{}\",\"size\":{number}}},\"layers\":[]}}",
        Digest::of(number.to_le_bytes())
    )
}

fn image(tag: &str, digest: Digest) -> WantedImage {
    WantedImage {
        name: format!("registry.k8s.io/pause:{tag}"),
        repository: REPOSITORY.to_owned(),
        tag: Some(tag.to_owned()),
        targets: BTreeSet::from([digest]),
        manifests: BTreeSet::from([digest]),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_image_is_asked_for_by_digest_and_by_tag_and_what_is_wrong_is_named() {
    let registry = Registry::start();
    let good = registry.put(REPOSITORY, &manifest(1), &["good", "moved"]);
    let untagged = registry.put(REPOSITORY, &manifest(2), &[]);
    let absent = Digest::of(manifest(3));
    let all = [image("absent", absent), image("good", good), image("moved", untagged), image("untagged", untagged)];
    let answer = ask(&registry.at(Some("hunter2")), &all).await.unwrap();
    let Answered::Images(wrong) = answer else { panic!("{answer:?}") };
    let name = |tag: &str| format!("registry.k8s.io/pause:{tag}");
    assert_eq!(
        wrong,
        [
            (name("absent"), Wrong::Missing { what: format!("{REPOSITORY}@{absent}") }),
            (name("moved"), Wrong::Moved { what: format!("{REPOSITORY}:moved"), found: good }),
            (name("untagged"), Wrong::Missing { what: format!("{REPOSITORY}:untagged") }),
        ]
    );
    assert_eq!(ask(&registry.at(Some("hunter2")), &all[1..2]).await.unwrap(), Answered::Images(Vec::new()));
    // A repository that is not there, and an image that is named by its digest alone.
    let elsewhere = WantedImage { repository: "nobody/has".to_owned(), ..image("good", good) };
    let answer = ask(&registry.at(Some("hunter2")), &[elsewhere]).await.unwrap();
    assert!(matches!(&answer, Answered::Images(wrong) if wrong.len() == 1), "{answer:?}");
    let by_digest = WantedImage { tag: None, ..image("untagged", untagged) };
    assert_eq!(ask(&registry.at(Some("hunter2")), &[by_digest]).await.unwrap(), Answered::Images(Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_login_an_unknown_ca_and_a_registry_that_is_down_are_told_apart_and_show_no_password() {
    let registry = Registry::start();
    let good = registry.put(REPOSITORY, &manifest(1), &["good"]);
    let images = [image("good", good)];
    for password in [None, Some("hunter3")] {
        let answer = ask(&registry.at(password), &images).await.unwrap();
        assert!(matches!(answer, Answered::Denied(_)), "{password:?}: {answer:?}");
        assert!(!format!("{answer:?}").contains("hunter3"));
    }
    let unknown = UserRegistry { ca: None, ..registry.at(Some("hunter2")) };
    let answer = ask(&unknown, &images).await.unwrap();
    assert!(matches!(&answer, Answered::Unusable(why) if why.contains("ertificate")), "{answer:?}");
    let broken = UserRegistry { ca: Some(b"nothing".to_vec()), ..registry.at(Some("hunter2")) };
    assert!(ask(&broken, &images).await.is_err());
    let nobody = crate::fetch::nobody().to_string();
    let down = UserRegistry { address: nobody.clone(), ..registry.at(Some("hunter2")) };
    let answer = ask(&down, &images).await.unwrap();
    assert!(matches!(&answer, Answered::Unusable(why) if why.contains(&nobody)), "{answer:?}");
}
