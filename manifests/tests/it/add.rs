//! `scripts/catalogue`, against a server on the loopback interface that publishes what upstream would.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ONE: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const TWO: &str = "22222222222222222222222222222222222222222222222222222222222e2222";
const OTHER: &str = "abababababababababababababababababababababababababababababababab";

/// Serves texts by path until the test ends, and answers 404 to all else.
fn serve(files: &[(&str, String)]) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let files: BTreeMap<String, String> = files.iter().map(|(path, text)| ((*path).to_owned(), text.clone())).collect();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &files);
        }
    });
    base
}

fn answer(mut stream: TcpStream, files: &BTreeMap<String, String>) {
    let lines: Vec<String> =
        BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let path = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let (status, body) = files.get(path).map_or(("404 Not Found", ""), |text| ("200 OK", text.as_str()));
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // a client that has gone needs no answer
    let _ = stream.write_all((head + body).as_bytes());
}

struct Bench {
    folder: PathBuf,
}

impl Bench {
    /// A copy of the real components.
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("catalogue-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/components");
        for entry in std::fs::read_dir(data).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
        }
        Self { folder }
    }

    fn run(&self, origin: &str, arguments: &[&str]) -> Output {
        Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/catalogue"))
            .args(arguments)
            .env("CATALOGUE_DATA", &self.folder)
            .env("CATALOGUE_ORIGIN", origin)
            .env("no_proxy", "127.0.0.1")
            .output()
            .unwrap()
    }

    fn text(&self, component: &str) -> String {
        std::fs::read_to_string(self.folder.join(format!("{component}.yaml"))).unwrap()
    }

    fn refused(&self, origin: &str, arguments: &[&str]) -> String {
        let before: Vec<String> = ["kubelet", "runc", "docker"].map(|name| self.text(name)).to_vec();
        let output = self.run(origin, arguments);
        assert!(!output.status.success(), "{arguments:?} was taken");
        let after: Vec<String> = ["kubelet", "runc", "docker"].map(|name| self.text(name)).to_vec();
        assert!(before == after, "{arguments:?} was refused and has written");
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn ok(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_version_is_added_with_both_digests_at_its_place_and_once() {
    let origin = serve(&[
        ("/dl.k8s.io/release/v1.34.99/bin/linux/amd64/kubelet.sha256", ONE.to_owned()),
        ("/dl.k8s.io/release/v1.34.99/bin/linux/arm64/kubelet.sha256", format!("{TWO}\n")),
        (
            "/github.com/opencontainers/runc/releases/download/v1.4.9/runc.sha256sum",
            format!("{OTHER}  libseccomp-2.6.0.tar.gz\n{ONE}  runc.amd64\n{TWO} *runc.arm64\n"),
        ),
    ]);
    let bench = Bench::new("add");
    ok(&bench.run(&origin, &["add", "kubelet", "v1.34.99", "runc", "1.4.9"]));
    let kubelet = bench.text("kubelet");
    let added =
        format!("  \"1.34.99\":\n    amd64: {{sha256: \"{ONE}\"}}\n    arm64: {{sha256: \"{TWO}\"}}\n  \"1.35.0\":\n");
    assert!(kubelet.contains(&added), "{kubelet}");
    assert!(bench.text("runc").ends_with(&format!("    arm64: {{sha256: \"{TWO}\"}}\n")));
    // the reader takes it: a digest of digits alone would be a number
    let component: serde_json::Value = serde_saphyr::from_str(&kubelet).unwrap();
    assert_eq!(component["versions"]["1.34.99"]["amd64"]["sha256"], ONE);
    assert_eq!(component["versions"]["1.34.99"]["arm64"]["sha256"], TWO);
    // again: the same text
    ok(&bench.run(&origin, &["add", "kubelet", "1.34.99"]));
    assert_eq!(bench.text("kubelet"), kubelet);
}

#[test]
fn sizes_are_asked_of_upstream_and_pinned_beside_the_digests() {
    let runc = "/github.com/opencontainers/runc/releases/download/v1.4.9";
    let origin = serve(&[
        (&format!("{runc}/runc.sha256sum"), format!("{ONE}  runc.amd64\n{TWO} *runc.arm64\n")),
        (&format!("{runc}/runc.amd64"), "12345".to_owned()),
    ]);
    let bench = Bench::new("sizes");
    ok(&bench.run(&origin, &["add", "runc", "1.4.9"]));
    let added = format!("    amd64: {{sha256: \"{ONE}\", size: 5}}\n    arm64: {{sha256: \"{TWO}\"}}\n");
    assert!(bench.text("runc").ends_with(&added), "{}", bench.text("runc"));
    // what has one is not asked for again, and what upstream does not have is refused
    let error = bench.refused(&origin, &["sizes", "runc"]);
    assert!(error.contains("does not publish"), "{error}");
    let component: serde_json::Value = serde_saphyr::from_str(&bench.text("runc")).unwrap();
    assert_eq!(component["versions"]["1.4.9"]["amd64"]["size"], 5);
}

#[test]
fn what_upstream_does_not_publish_is_refused_and_nothing_is_written() {
    let runc = "/github.com/opencontainers/runc/releases/download";
    let origin = serve(&[
        ("/dl.k8s.io/release/v1.34.99/bin/linux/amd64/kubelet.sha256", ONE.to_owned()),
        ("/dl.k8s.io/release/v1.34.98/bin/linux/amd64/kubelet.sha256", "<html>moved</html>".to_owned()),
        (&format!("{runc}/v1.4.8/runc.sha256sum"), format!("{ONE}  runc.armhf\n")),
        (
            &format!("{runc}/v1.4.7/runc.sha256sum"),
            format!("{ONE}  runc.amd64\n{TWO}  runc.amd64\n{TWO}  runc.arm64\n"),
        ),
        (&format!("{runc}/v1.4.3/runc.sha256sum"), format!("{ONE}  runc.amd64\n{TWO}  runc.arm64\n")),
    ]);
    let bench = Bench::new("refuse");
    for (arguments, said) in [
        (&["add", "kubelet", "1.34.99"][..], "arm64/kubelet.sha256"),
        (&["add", "kubelet", "1.34.98"], "names no digest of kubelet"),
        (&["add", "runc", "1.4.8"], "names no digest of runc.amd64"),
        (&["add", "runc", "1.4.7"], "names two digests of runc.amd64"),
        // another digest than the one that is pinned
        (&["add", "runc", "1.4.3"], "is pinned"),
        (&["add", "docker", "29.0.0"], "publishes no sha256 of docker"),
        (&["add", "kubelett", "1.34.99"], "there is no component"),
        (&["add", "kubelet", "../1.34.99"], "is not a version"),
        (&["add", "kubelet"], "usage"),
    ] {
        let error = bench.refused(&origin, arguments);
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let error = bench.refused(&format!("http://{free}"), &["add", "kubelet", "1.34.99"]);
    assert!(error.contains("nothing was written"), "{error}");
}

#[test]
fn the_data_are_of_the_shape_that_the_script_writes() {
    let bench = Bench::new("shape");
    let table = bench.folder.join("none.json");
    let names: Vec<String> = std::fs::read_dir(&bench.folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let texts: Vec<String> = names.iter().map(|name| bench.text(name)).collect();
    let nothing: BTreeMap<&str, BTreeMap<&str, &str>> =
        names.iter().map(|name| (name.as_str(), BTreeMap::new())).collect();
    std::fs::write(&table, serde_json::to_vec(&nothing).unwrap()).unwrap();
    // takes over no digest, and so writes every file again as it would
    ok(&bench.run("http://127.0.0.1:9", &["import", table.to_str().unwrap()]));
    for (name, text) in names.iter().zip(texts) {
        assert!(bench.text(name) == text, "{name}.yaml is not in the order and shape that scripts/catalogue writes");
    }
}
