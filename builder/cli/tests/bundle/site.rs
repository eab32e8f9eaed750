//! A user's folder with a cluster.yaml and a cache of its own, and the program run in it.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use kubexm_spec::{Digest, ExitCode};

/// Everything one test touches; gone with it.
pub struct Site {
    dir: tempfile::TempDir,
}

/// How a run of the program ended.
pub struct Ended {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Site {
    pub fn new() -> Self {
        let site = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(site.path("home")).unwrap();
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes a cluster.yaml of extras only; `bundle` is the inside of `spec.bundle`.
    pub fn extras(&self, bundle: &str) -> PathBuf {
        self.write("cluster.yaml", extras(bundle))
    }

    /// A zone file that sends one origin host to a registry over plain HTTP, and nowhere else.
    pub fn zone(&self, host: &str, to: &str) -> PathBuf {
        self.write(
            "zone.yaml",
            format!("name: lab\nrules:\n- {{match: {host}, to: [\"{to}\"], plainHttp: true, only: true}}\n"),
        )
    }

    /// The program in an environment where nothing of this machine's user shows through.
    pub fn program(&self) -> Command {
        let mut command = Command::cargo_bin("kubexm-bundle").unwrap();
        command
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("KUBEXM_HOME", self.path("kubexm"))
            // Statements of signatures have a date; signing again gives the same bytes.
            .env("SOURCE_DATE_EPOCH", "1790000000")
            .env("NO_PROXY", "*");
        command
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        end(self.program().args(args))
    }

    /// `build -f cluster.yaml -o out.tar.zst` and more.
    pub fn build(&self, more: &[&str]) -> Ended {
        end(self.program().args(["build", "-f", "cluster.yaml", "-o", "out.tar.zst"]).args(more))
    }

    /// The same, which must succeed; the bundle.
    pub fn built(&self, more: &[&str]) -> PathBuf {
        self.build(more).must(ExitCode::Ok);
        self.path("out.tar.zst")
    }

    /// A build that must fail, with nothing under the bundle's name nor beside it; what it said.
    pub fn refused(&self, code: ExitCode, more: &[&str]) -> String {
        let ended = self.build(more).must(code);
        assert!(bundles(self.dir.path()).is_empty(), "{:?}", bundles(self.dir.path()));
        ended.err
    }

    /// Unpacks a bundle as anybody would, with `tar --zstd`.
    pub fn unpack(&self, bundle: &Path) -> PathBuf {
        let folder = self.path("unpacked");
        std::fs::create_dir_all(&folder).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("--zstd").arg("-xf").arg(bundle).arg("-C").arg(&folder).assert().success();
        folder
    }

    /// Names of a folder of the cache.
    pub fn cache(&self, folder: &str) -> Vec<String> {
        names(&self.path("kubexm/cache").join(folder))
    }
}

impl Ended {
    #[track_caller]
    pub fn must(self, code: ExitCode) -> Self {
        assert_eq!(self.code, i32::from(code.code()), "{}\n{}", self.out, self.err);
        self
    }

    /// Standard output as one JSON document.
    pub fn document(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }

    /// Standard output as events, one a line.
    pub fn events(&self) -> Vec<serde_json::Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }
}

pub fn end(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ended { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

pub fn extras(bundle: &str) -> String {
    let bundle: String = bundle.lines().map(|line| format!("    {line}\n")).collect();
    format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: extras}}\nspec:\n  bundle:\n{bundle}")
}

/// One entry of `extraFiles` with a URL.
pub fn wanted(url: &str, body: &[u8]) -> String {
    format!("- {{url: \"{url}\", sha256: \"{}\"}}", Digest::of(body).hex())
}

/// Every name in a folder that could be a bundle or a part of one.
pub fn bundles(folder: &Path) -> Vec<String> {
    names(folder).into_iter().filter(|name| name.contains(".tar.zst") || name.contains("partial")).collect()
}

pub fn names(folder: &Path) -> Vec<String> {
    let mut all: Vec<String> = std::fs::read_dir(folder)
        .map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
        .unwrap_or_default();
    all.sort();
    all
}

/// Bytes with no pattern, which no compressor makes smaller.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut all = vec![0; length.next_multiple_of(8)];
    // In chunks: hundreds of megabytes of it are made without optimization.
    for chunk in all.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes());
    }
    all.truncate(length);
    all
}

pub fn digest(path: &Path) -> Digest {
    Digest::of(std::fs::read(path).unwrap())
}

#[track_caller]
pub fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}
