//! The bundle's helm on the controller: only to render, before any host is changed. It has no network use, no plugins and no home but a
//! folder that goes afterwards. Where the bundle has none for this machine, charts are rendered at their steps only.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use kubexm_archive::Bundle;
use kubexm_charts::documents;
use kubexm_manifests::Catalogue;
use kubexm_manifests::component::Payload;
use kubexm_spec::{Arch, ArtifactKey, Digest, Program};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// Longer than any chart takes that does not loop.
const TIME: Duration = Duration::from_secs(60);
/// The most bytes of the program, and of a chart.
const PROGRAM_LIMIT: u64 = 256 << 20;
const CHART_LIMIT: u64 = 64 << 20;
/// The most characters of what helm prints on errors.
const REPORTED: usize = 2_000;

/// A helm that can be run here.
pub(crate) struct Helm {
    program: PathBuf,
    folder: tempfile::TempDir,
}

/// What to render.
pub(crate) struct Job<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    /// A blob of the bundle.
    pub chart: &'a Digest,
    pub values: &'a Map<String, Value>,
    pub kubernetes: &'a str,
    /// In addition to those that helm knows.
    pub apis: &'a [String],
    pub upgrade: bool,
}

impl Helm {
    /// The bundle's, below a folder in which programs can be run; none if it has none for this machine.
    pub(crate) fn of(bundle: &Bundle, catalogue: &Catalogue, folder: &Path) -> io::Result<Option<Self>> {
        let arch = match (std::env::consts::OS, std::env::consts::ARCH) {
            ("linux", "x86_64") => Arch::Amd64,
            ("linux", "aarch64") => Arch::Arm64,
            _ => return Ok(None),
        };
        let key = ArtifactKey::Binary(Program::Helm);
        let for_here = |platform: Option<kubexm_spec::Platform>| platform.is_none_or(|platform| platform.arch == arch);
        let mut artifacts = bundle.manifest().artifacts.iter();
        let artifact = artifacts.find(|artifact| artifact.key == key && for_here(artifact.platform));
        let (Some(artifact), Some(component)) = (artifact, catalogue.component(Program::Helm)) else { return Ok(None) };
        std::fs::create_dir_all(folder)?;
        let folder = tempfile::Builder::new().prefix(".helm-").tempdir_in(folder)?;
        let program = folder.path().join("helm");
        let content = bundle.blob(&artifact.digest).map_err(io::Error::other)?;
        match component.payload(&artifact.version, arch) {
            Payload::Raw(_) => copy(content, &program)?,
            Payload::Archive(archive) => {
                let member = archive.members.into_iter().find(|(_, name)| name == "helm").map(|(path, _)| path);
                unpack(content, &member.unwrap_or_default(), &program)?;
            }
        }
        // A home may be on a file system from which nothing is run.
        let mut tried = std::process::Command::new(&program);
        tried.args(["version", "--short"]).env_clear().env("HOME", folder.path()).stdin(Stdio::null());
        let tried = tried.output()?;
        match tried.status.success() {
            true => Ok(Some(Self { program, folder })),
            false => Err(io::Error::other(printable(&tried.stderr))),
        }
    }

    /// Everything that an install would create, but tests: templates, definitions and hooks. The error is what helm says.
    pub(crate) async fn render(&self, bundle: &Bundle, job: &Job<'_>) -> Result<Vec<Value>, String> {
        let home = tempfile::tempdir_in(self.folder.path()).map_err(|error| error.to_string())?;
        let chart = home.path().join("chart.tgz");
        let archive = bundle.read(&kubexm_archive::members::blob_name(job.chart), CHART_LIMIT);
        std::fs::write(&chart, archive.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.program);
        command.arg("template").arg(job.name).arg(&chart);
        command.args(["--include-crds", "--skip-tests", "--namespace", job.namespace, "--values", "-"]);
        command.args(["--kube-version", job.kubernetes]);
        if job.upgrade {
            command.arg("--is-upgrade");
        }
        for apis in job.apis.chunks(100) {
            command.args(["--api-versions", &apis.join(",")]);
        }
        command.env_clear().env("HOME", home.path()).env("HELM_NO_PLUGINS", "1").current_dir(home.path());
        for (name, folder) in [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(name, home.path().join(folder));
        }
        command.env("HELM_PLUGINS", home.path().join("none"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let values = Value::Object(job.values.clone()).to_string();
        let run = tokio::time::timeout(TIME, run(command, values)).await;
        let (ok, stdout, stderr) = run
            .map_err(|_| format!("helm did not end within {} s", TIME.as_secs()))?
            .map_err(|error| error.to_string())?;
        if !ok {
            return Err(printable(&stderr));
        }
        let text = String::from_utf8(stdout).map_err(|_| "helm's output is not text".to_owned())?;
        documents::read(&text)
            .map_err(|error| format!("what helm renders cannot be read: {}: {}", error.place, error.problem))
    }
}

async fn run(mut command: Command, values: String) -> io::Result<(bool, Vec<u8>, Vec<u8>)> {
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let give = async {
        if let Some(mut stdin) = stdin {
            // One that does not read them has ended, and says why.
            let _ = stdin.write_all(values.as_bytes()).await;
        }
    };
    let ((), out, err) = tokio::join!(give, all(stdout), all(stderr));
    Ok((child.wait().await?.success(), out?, err?))
}

async fn all(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(documents::STREAM_LIMIT).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Bounded, and without control characters.
fn printable(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let clean: String = text.trim().chars().filter(|c| *c == '\n' || !c.is_control()).take(REPORTED).collect();
    let text = clean.strip_prefix("Error: ").unwrap_or(&clean);
    if text.is_empty() { "it printed nothing".to_owned() } else { text.to_owned() }
}

fn copy(from: impl Read, to: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o700).open(to)?;
    io::copy(&mut from.take(PROGRAM_LIMIT), &mut file)?;
    file.flush()
}

fn unpack(archive: impl Read, member: &str, to: &Path) -> io::Result<()> {
    let mut archive = tar::Archive::new(MultiGzDecoder::new(archive).take(PROGRAM_LIMIT));
    for entry in archive.entries()? {
        let entry = entry?;
        let path = entry.path_bytes().into_owned();
        if path.strip_prefix(b"./").unwrap_or(&path) == member.as_bytes() && entry.header().entry_type().is_file() {
            return copy(entry, to);
        }
    }
    Err(io::Error::other(format!("the bundle's archive of helm has no {member}")))
}
