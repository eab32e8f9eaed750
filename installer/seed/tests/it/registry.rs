//! Debian's docker-registry, and distribution 3 as the lab builds it, on a port of its own choice.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = "/usr/bin/docker-registry";

/// distribution 3, which `scripts/lab build` makes.
pub fn distribution_3() -> PathBuf {
    lab_program("registry")
}

/// A program that `scripts/lab build` makes.
pub fn lab_program(name: &str) -> PathBuf {
    let lab = std::env::var_os("KUBEXM_LAB").map(PathBuf::from).or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        Some(cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?.join("kubexm-lab"))
    });
    lab.unwrap().join("bin").join(name)
}

pub const USER: &str = "builder";
pub const PASSWORD: &str = "open sesame";
/// `PASSWORD` by bcrypt, the only kind the registry takes.
const HTPASSWD: &str = "builder:$2b$04$8SvDOsjR11p6PDa.WrKwY.HRPBGLwjtvekovrD84a8IKfLm19u5DG\n";

/// Killed at the end.
pub struct Registry {
    child: Child,
    pub address: String,
    dir: tempfile::TempDir,
    setup: Setup,
}

#[derive(Clone, Copy, Default)]
pub struct Setup {
    pub tls: bool,
    pub password: bool,
    pub read_only: bool,
}

impl Registry {
    pub fn start(setup: Setup) -> Self {
        Self::start_program(Path::new(PROGRAM), setup)
    }

    pub fn start_program(program: &Path, setup: Setup) -> Self {
        let needed = "is needed (Debian package docker-registry; distribution 3: scripts/lab build)";
        assert!(program.exists(), "{} {needed}", program.display());
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mut config = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\n{}",
            at("data").display(),
            if setup.read_only { "  maintenance: {readonly: {enabled: true}}\n" } else { "" },
        );
        if setup.password {
            std::fs::write(at("htpasswd"), HTPASSWD).unwrap();
            config.push_str(&format!("auth:\n  htpasswd: {{realm: test, path: {}}}\n", at("htpasswd").display()));
        }
        config.push_str("http:\n  addr: 127.0.0.1:0\n  secret: unguarded\n");
        if setup.tls {
            certificates(dir.path());
            let (leaf, key) = (at("leaf.pem"), at("leaf.key"));
            config.push_str(&format!("  tls: {{certificate: {}, key: {}}}\n", leaf.display(), key.display()));
        }
        std::fs::write(at("config.yml"), config).unwrap();
        let (child, address) = run(program, &at("config.yml"));
        Self { child, address, dir, setup }
    }

    /// The folder that the registry keeps its blobs in.
    pub fn blobs(&self) -> PathBuf {
        self.dir.path().join("data/docker/registry/v2/blobs/sha256")
    }

    /// Takes a tag away; what it named stays.
    pub fn forget_tag(&self, repository: &str, tag: &str) {
        let repositories = self.dir.path().join("data/docker/registry/v2/repositories");
        std::fs::remove_dir_all(repositories.join(repository).join("_manifests/tags").join(tag)).unwrap();
    }

    /// What is under a tag or digest, byte for byte, as skopeo reads it.
    pub fn raw(&self, name: &str) -> Vec<u8> {
        let mut command = Command::new("skopeo");
        command.args(["inspect", "--raw"]);
        match self.setup.tls {
            true => command.arg("--cert-dir").arg(self.dir.path().join("ca")),
            false => command.arg("--tls-verify=false"),
        };
        if self.setup.password {
            command.arg("--creds").arg(format!("{USER}:{PASSWORD}"));
        }
        let output = command.arg(format!("docker://{}/{name}", self.address)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

/// Starts the program and waits until it listens; its address.
fn run(program: &Path, config: &Path) -> (Child, String) {
    let mut child = Command::new(program)
        .arg("serve")
        .arg(config)
        .env("OTEL_TRACES_EXPORTER", "none")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("listening on ")?.1.split(['"', ',']).next()?.to_owned()))
        .expect("the registry ended before it listened");
    // Its log must be read on, or the pipe fills up.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    (child, address)
}

impl Registry {
    /// The CA that its certificate is signed by.
    pub fn ca(&self) -> PathBuf {
        self.dir.path().join("ca/ca.crt")
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A CA of our own in `ca/ca.crt`, and a leaf for 127.0.0.1.
fn certificates(dir: &Path) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(rcgen::DnType::CommonName, "test CA");
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&leaf_key, &Issuer::new(ca, ca_key)).unwrap();
    std::fs::create_dir_all(dir.join("ca")).unwrap();
    std::fs::write(dir.join("ca/ca.crt"), ca_pem).unwrap();
    std::fs::write(dir.join("leaf.pem"), leaf.pem()).unwrap();
    std::fs::write(dir.join("leaf.key"), leaf_key.serialize_pem()).unwrap();
}
