//! `KMZONE=cn` as it is, with the names of the real mirrors: a proxy of the test takes every one of them to this machine,
//! behind certificates of an authority that the test's environment trusts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use kubexm_spec::{Digest, ExitCode};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use serde_json::Value;

use crate::images::two_platforms;
use crate::registry::{Registry, Setup};
use crate::server::{Reply, Server, file};
use crate::site::{Ended, Site, assert_contains, end};

/// Every host that zone cn names, and the origins behind them.
const FILES: [&str; 4] = ["files.m.daocloud.io", "dl.k8s.io", "github.com", "get.helm.sh"];
const IMAGES: [&str; 5] =
    ["registry.aliyuncs.com", "k8s.m.daocloud.io", "ghcr.m.daocloud.io", "registry.k8s.io", "ghcr.io"];

/// What the mirrors lack; the path as they are asked for it.
type Lacks = fn(host: &str, path: &str) -> bool;

/// An HTTP proxy that leads everybody to this machine, and what went through it, as `host/path`.
struct Internet {
    address: String,
    authority: PathBuf,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Internet {
    fn start(site: &Site, files: &Server, registry: &Registry, lacks: Lacks) -> Self {
        let config = Arc::new(tls(&site.path("ca.pem")));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (files, images, seen) = (files.address().to_owned(), registry.address.clone(), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, seen) = (Arc::clone(&config), Arc::clone(&seen));
                let (files, images) = (files.clone(), images.clone());
                std::thread::spawn(move || serve(stream, config, &seen, (&files, &images), lacks).ok());
            }
        });
        Self { address, authority: site.path("ca.pem"), asked }
    }

    fn asked(&self, start: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|address| address.starts_with(start)).count()
    }
}

/// An authority, and one certificate for every host.
fn tls(authority: &std::path::Path) -> rustls::ServerConfig {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(authority, ca.self_signed(&ca_key).unwrap().pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = FILES.iter().chain(&IMAGES).map(|host| (*host).to_owned()).collect();
    let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key).unwrap()
}

/// One tunnel: TLS to the client, plain HTTP to what stands for the host, one request after the other.
fn serve(
    stream: TcpStream,
    config: Arc<rustls::ServerConfig>,
    seen: &Mutex<Vec<String>>,
    (files, images): (&str, &str),
    lacks: Lacks,
) -> std::io::Result<()> {
    let head = read_head(&mut BufReader::new(stream.try_clone()?))?;
    let Some(host) = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(':').next()) else { return Ok(()) };
    let mut stream = stream;
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let connection = rustls::ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut tls = rustls::StreamOwned::new(connection, stream);
    let request = read_head(&mut BufReader::with_capacity(1, &mut tls))?;
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap().push(format!("{host}{path}"));
    let answer = if lacks(host, &path) {
        b"HTTP/1.1 404 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_vec()
    } else {
        let is_image = IMAGES.contains(&host);
        // Files are the same whether a mirror or the origin is asked: by origin host and path.
        let path = if is_image || host.starts_with("files.") { path.clone() } else { format!("/{host}{path}") };
        forward(if is_image { images } else { files }, &request, &path)?
    };
    tls.write_all(&answer)?;
    tls.conn.send_close_notify();
    tls.flush()
}

fn read_head(from: &mut impl BufRead) -> std::io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

fn forward(address: &str, request: &str, path: &str) -> std::io::Result<Vec<u8>> {
    let mut lines = request.trim_end().lines();
    let method = lines.next().and_then(|line| line.split(' ').next()).unwrap_or("GET");
    let headers: String = lines
        .filter(|line| !line.to_ascii_lowercase().starts_with("connection:"))
        .map(|line| format!("{line}\r\n"))
        .collect();
    let mut upstream = TcpStream::connect(address)?;
    upstream.write_all(format!("{method} {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn body(path: &str) -> Vec<u8> {
    format!("program {path}").into_bytes()
}

/// The world that mirrors and origins live in, and a whole cluster's cluster.yaml.
struct World {
    site: Site,
    internet: Internet,
    _registry: Registry,
}

impl World {
    fn new(lacks: Lacks) -> Self {
        let (site, registry) = (Site::new(), Registry::start(Setup::default()));
        let head = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: lab}\nspec:\n";
        site.write("cluster.yaml", format!("{head}  kubernetes: {{version: v1.34.4}}\n"));
        let mut program = b"\x7fELF\x02\x01".to_vec();
        program.resize(18, 0);
        program.extend([62, 0]);
        site.write("kubexm-install", &program);
        let planned = site.build(&["--dry-run", "--json"]).must(ExitCode::Ok).document();
        let (made, ..) = two_platforms(site.path("made"), "v1");
        let mut components = String::new();
        for item in planned["items"].as_array().unwrap() {
            let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
            let (key, version, source) =
                (text("key"), text("version"), item["sources"][0].as_str().unwrap_or_default());
            if let Some(name) = key.strip_prefix("binary/") {
                let sha256 = Digest::of(body(source.strip_prefix("https://").unwrap())).hex();
                components
                    .push_str(&format!("  {name}: {{versions: {{{version}: {{amd64: {{sha256: {sha256}}}}}}}}}\n"));
            } else if key.starts_with("image/") {
                // As the origin has it, as aliyun's flat paths do, and as daocloud does.
                let path = source.split_once('/').unwrap().1;
                let flat = format!("google_containers/{}", path.rsplit('/').next().unwrap());
                for repository in [path, flat.as_str()] {
                    registry.push(made.path(), repository, &version);
                }
            }
        }
        site.write(
            "overlay.yaml",
            format!("schema: kubexm.io/catalogue/v1\nname: own builds\ncomponents:\n{components}"),
        );
        let files = Server::start(|request| match request.path.is_empty() {
            true => Reply::new(404, ""),
            false => file(request, &body(&request.path)),
        });
        let internet = Internet::start(&site, &files, &registry, lacks);
        Self { site, internet, _registry: registry }
    }

    fn run(&self, args: &[&str]) -> Ended {
        let mut program = self.site.program();
        program.args(args).args(["--catalogue", "overlay.yaml", "--installer", "kubexm-install"]);
        program.env("KMZONE", "cn").env_remove("NO_PROXY");
        program.env("HTTPS_PROXY", format!("http://{}", self.internet.address));
        end(program.env("SSL_CERT_FILE", &self.internet.authority))
    }
}

#[test]
fn kmzone_cn_builds_from_its_mirrors_and_asks_no_origin() {
    let world = World::new(|_, _| false);
    world.run(&["build", "-f", "cluster.yaml", "-o", "out.tar.zst"]).must(ExitCode::Ok);
    world.site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
    let shown = world.site.run(&["inspect", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    assert_eq!(shown["zone"], "cn");
    for origin in ["dl.k8s.io", "github.com", "get.helm.sh", "registry.k8s.io", "ghcr.io"] {
        assert_eq!(world.internet.asked(&format!("{origin}/")), 0, "{origin}");
    }
    for mirror in
        ["files.m.daocloud.io/dl.k8s.io/", "registry.aliyuncs.com/v2/google_containers/", "ghcr.m.daocloud.io/v2/"]
    {
        assert!(world.internet.asked(mirror) > 0, "{mirror}");
    }
}

#[test]
fn what_a_mirror_of_zone_cn_lacks_comes_from_the_next_one_or_from_the_origin() {
    // As it is: aliyun has no coredns of this path, and mirrors have the newest only.
    let world = World::new(|host, path| match host {
        "registry.aliyuncs.com" => path.contains("/coredns/"),
        "ghcr.m.daocloud.io" => true,
        "files.m.daocloud.io" => path.contains("runc"),
        _ => false,
    });
    let check = world.run(&["zone", "check", "-f", "cluster.yaml"]).must(ExitCode::Ok);
    assert_contains(
        &check.out,
        &[
            "ok   binary/runc",
            "https://files.m.daocloud.io/github.com/opencontainers/runc",
            "0 not available from any source",
        ],
    );
    // The check asks everybody, the build nobody in vain.
    let probed = world.internet.asked("registry.k8s.io/");
    world.run(&["build", "-f", "cluster.yaml", "-o", "out.tar.zst"]).must(ExitCode::Ok);
    let shown = world.site.run(&["inspect", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    let trust = |key: &str| -> Value {
        let found = shown["artifacts"].as_array().unwrap().iter().find(|artifact| artifact["key"] == key);
        found.unwrap_or_else(|| panic!("{key}"))["trust"].clone()
    };
    // The origin itself said what flannel's tag is; of coredns only a mirror did.
    assert_eq!((trust("image/flannel"), trust("image/coredns")), ("oci-digest".into(), "mirror".into()));
    assert!(world.internet.asked("k8s.m.daocloud.io/v2/coredns/") > 0);
    assert!(world.internet.asked("github.com/opencontainers/runc/") > 0);
    assert_eq!(world.internet.asked("registry.k8s.io/"), probed);
}

#[test]
fn an_artifact_that_no_source_of_zone_cn_has_is_found_before_the_build() {
    let world = World::new(|host, path| {
        matches!(host, "registry.aliyuncs.com" | "k8s.m.daocloud.io" | "registry.k8s.io") && path.contains("/pause/")
    });
    let check = world.run(&["zone", "check", "-f", "cluster.yaml"]).must(ExitCode::NoSource);
    assert_contains(
        &check.out,
        &["GONE image/pause", "registry.aliyuncs.com/google_containers/pause", "registry.k8s.io/pause"],
    );
    assert_contains(&check.err, &["not available from any source: image/pause"]);
}
