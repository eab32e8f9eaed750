//! A repository as a vendor makes it, and what a test changes of it.

use std::sync::OnceLock;

use kubexm_builder::origins::packages::{Loaded, Options, PackagesError, Trust, deb};
use kubexm_packages::compression::gzip;
use kubexm_packages::deb::release::format_date;
use kubexm_packages::trust::{Keyring, SiteKey};
use kubexm_spec::{Arch, Digest};
use kubexm_transport::{FileCandidate, HttpClient, HttpOptions, Store};

use crate::packages::server::Server;

/// The time in these tests, in seconds of Unix time: that of the keys, before which they cannot have signed anything.
pub fn now() -> i64 {
    static BEGUN: OnceLock<i64> = OnceLock::new();
    *BEGUN.get_or_init(|| {
        keys();
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        i64::try_from(since.as_secs()).unwrap()
    })
}

pub const DAY: i64 = 86_400;

/// The vendor's key, and one of somebody else.
pub fn keys() -> &'static (SiteKey, SiteKey) {
    static KEYS: OnceLock<(SiteKey, SiteKey)> = OnceLock::new();
    KEYS.get_or_init(|| {
        let key = |owner: &str| SiteKey::generate(owner, 2048).unwrap();
        (key("Vendor <vendor@example.org>"), key("Somebody <else@example.org>"))
    })
}

/// How the suite is made.
#[derive(Clone)]
pub struct Repository {
    pub suite: &'static str,
    pub component: &'static str,
    pub packages: &'static [&'static str],
    pub made: i64,
    pub valid_until: Option<i64>,
    pub by_hash: bool,
    pub clear_signed: bool,
}

impl Default for Repository {
    fn default() -> Self {
        Self {
            suite: "stable",
            component: "main",
            packages: &["socat", "libc6"],
            made: now() - 2 * DAY,
            valid_until: Some(now() + 5 * DAY),
            by_hash: true,
            clear_signed: true,
        }
    }
}

/// `Packages` of some names.
pub fn index(names: &[&str]) -> String {
    let entry = |name: &&str| {
        let digest = Digest::of(content(name)).hex();
        format!(
            "Package: {name}\nVersion: 1.0\nArchitecture: amd64\nFilename: pool/{name}.deb\nSize: {}\nSHA256: {digest}\n\n",
            content(name).len()
        )
    };
    names.iter().map(entry).collect()
}

/// What the file of a package has in it.
pub fn content(name: &str) -> String {
    format!("the package {name}")
}

impl Repository {
    /// Path below the suite's folder and content of what it serves as indexes.
    fn indexes(&self) -> Vec<(String, Vec<u8>)> {
        let text = index(self.packages);
        let folder = if self.is_flat() { String::new() } else { format!("{}/binary-amd64/", self.component) };
        vec![
            (format!("{folder}Packages"), text.clone().into_bytes()),
            (format!("{folder}Packages.gz"), gzip(text.as_bytes())),
        ]
    }

    fn is_flat(&self) -> bool {
        self.suite.ends_with('/')
    }

    pub fn release(&self) -> String {
        let mut text = format!("Codename: {}\nDate: {}\n", self.suite, format_date(self.made));
        if let Some(until) = self.valid_until {
            text.push_str(&format!("Valid-Until: {}\n", format_date(until)));
        }
        if self.by_hash {
            text.push_str("Acquire-By-Hash: yes\n");
        }
        if !self.is_flat() {
            text.push_str(&format!("Components: {}\nArchitectures: amd64\n", self.component));
        }
        text.push_str("SHA256:\n");
        for (path, content) in self.indexes() {
            text.push_str(&format!(" {} {} {path}\n", Digest::of(&content).hex(), content.len()));
        }
        text
    }

    /// Folder of the suite below the repository's address, with a slash at its end.
    pub fn folder(&self) -> String {
        match self.suite {
            "./" => String::new(),
            flat if self.is_flat() => flat.to_owned(),
            suite => format!("dists/{suite}/"),
        }
    }

    /// Everything it serves, signed by a key. The plain index is listed and not served, as Debian does.
    pub fn files(&self, key: &SiteKey) -> Vec<(String, Vec<u8>)> {
        let folder = self.folder();
        let release = self.release();
        let mut files = Vec::new();
        if self.clear_signed {
            files.push((format!("{folder}InRelease"), key.clearsigned(&release, now()).unwrap().into_bytes()));
        } else {
            files.push((format!("{folder}Release.gpg"), key.detached(release.as_bytes(), now()).unwrap().into_bytes()));
            files.push((format!("{folder}Release"), release.into_bytes()));
        }
        for (path, content) in self.indexes().into_iter().filter(|(path, _)| path.ends_with(".gz")) {
            let parent = path.rsplit_once('/').map(|(parent, _)| format!("{parent}/")).unwrap_or_default();
            if self.by_hash {
                let hex = Digest::of(&content).hex();
                files.push((format!("{folder}{parent}by-hash/SHA256/{hex}"), content.clone()));
            }
            files.push((format!("{folder}{path}"), content));
        }
        files
    }

    /// What is asked of the origin for it.
    pub fn wanted(&self, bases: &[&str]) -> deb::Suite {
        let keyring = Keyring::read(keys().0.public().unwrap().as_bytes()).unwrap();
        deb::Suite {
            name: "main".to_owned(),
            origin: "https://origin.test/debian".to_owned(),
            bases: bases.iter().map(|base| FileCandidate::new(*base)).collect(),
            suite: self.suite.to_owned(),
            components: if self.is_flat() { Vec::new() } else { vec![self.component.to_owned()] },
            trust: Trust::Signed(keyring),
            priority: 0,
        }
    }
}

/// A cache and a client.
pub struct Builder {
    pub store: Store,
    pub http: HttpClient,
    pub now: i64,
    _folder: tempfile::TempDir,
}

impl Builder {
    pub fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        Self { store: Store::open(folder.path()).unwrap(), http: client(false), now: now(), _folder: folder }
    }

    pub fn offline(self) -> Self {
        Self { http: client(true), ..self }
    }

    pub async fn load(&self, suites: &[deb::Suite]) -> Result<Loaded, PackagesError> {
        let options = Options { now: self.now, plain_http: true };
        deb::load(suites, Arch::Amd64, &self.http, &self.store, &options).await
    }
}

fn client(offline: bool) -> HttpClient {
    let millisecond = std::time::Duration::from_millis(1);
    HttpClient::new(HttpOptions {
        offline,
        proxies: false,
        retries: 1,
        backoff_min: millisecond,
        backoff_max: millisecond,
        ..HttpOptions::default()
    })
    .unwrap()
}

/// Names of all packages, in the pool's order.
pub fn names(loaded: &Loaded) -> Vec<&str> {
    loaded.pool.packages().map(|package| &*package.name).collect()
}

/// A server with a repository that the vendor has signed.
pub async fn served(repository: &Repository) -> Server {
    let server = Server::start().await;
    server.put(repository.files(&keys().0));
    server
}
