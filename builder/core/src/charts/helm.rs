//! The real helm: taken from the catalogue like any other program and verified by its digest, or named by the user; run in a
//! [`Sandbox`], on one chart at a time.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use kubexm_charts::HELM_MEMORY;
use kubexm_manifests::component::Payload;
use kubexm_manifests::{Catalogue, Component, Zone, version};
use kubexm_spec::{Arch, ArtifactKey, Program};
use kubexm_transport::Want;
use serde_json::{Map, Value};

use super::documents::STREAM_LIMIT;
use super::error::ChartError;
use super::sandbox::{Limits, Sandbox};
use crate::origins::{Origins, file};
use crate::{BuildError, places};

/// Longer than any chart takes that does not loop.
const TIME: Duration = Duration::from_secs(120);
/// The most bytes of the program.
const PROGRAM_LIMIT: u64 = 256 << 20;
/// How much of what helm says is reported.
const REPORTED: usize = 2_000;

/// A helm that runs.
#[derive(Debug)]
pub struct Helm {
    program: PathBuf,
    sandbox: Sandbox,
    /// Holds the program, when it came from the catalogue, and the folders that it is run in.
    folder: tempfile::TempDir,
}

/// One chart to be rendered.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// `chart/NAME`.
    pub key: &'a ArtifactKey,
    /// The checked archive.
    pub archive: &'a Path,
    /// Of the release.
    pub name: &'a str,
    /// `--namespace`.
    pub namespace: &'a str,
    /// `--kube-version`; helm's own default where there is no cluster.
    pub kubernetes: Option<&'a str>,
    /// Given by a file, never by arguments.
    pub values: &'a Map<String, Value>,
}

impl Helm {
    /// The one that was named, or the catalogue's for this machine.
    pub async fn find(catalogue: &Catalogue, zone: &Zone, origins: &Origins) -> Result<Self, BuildError> {
        let unusable = |reason: String| BuildError::from(ChartError::Helm { reason });
        // Beside the cache and not in /tmp, where programs often may not be run.
        let folder = tempfile::Builder::new()
            .prefix("helm-")
            .tempdir_in(origins.store.root())
            .map_err(|e| unusable(format!("{}: {e}", origins.store.root().display())))?;
        let program = match &origins.helm {
            Some(named) => std::path::absolute(named).map_err(|e| unusable(format!("{}: {e}", named.display())))?,
            None => from_catalogue(catalogue, zone, origins, folder.path()).await?,
        };
        let sandbox = Sandbox::probe(folder.path()).await;
        let helm = Self { program, sandbox, folder };
        let limits = Limits { time: TIME, output: 4 << 10, memory: HELM_MEMORY };
        let ended = helm.sandbox.run(&helm.program, &["version", "--short"], helm.folder.path(), limits).await;
        match ended {
            Ok(ended) if ended.status.success() => Ok(helm),
            Ok(ended) => Err(unusable(format!(
                "{} {}: {}",
                helm.program.display(),
                ended.status,
                printable_excerpt(&ended.stderr)
            ))),
            Err(why) => Err(unusable(why)),
        }
    }

    /// Whether what is rendered could not ask a network.
    pub const fn is_offline(&self) -> bool {
        self.sandbox.is_offline()
    }

    /// Everything that an install would create: templates, CRDs and hooks. `tests`: with hooks of which an event is `test`.
    pub async fn render(&self, job: &Job<'_>, tests: bool) -> Result<String, ChartError> {
        let item = || job.key.to_string();
        let refused = |reason: String| ChartError::Render { item: item(), values: !job.values.is_empty(), reason };
        let home = tempfile::tempdir_in(self.folder.path()).map_err(|e| refused(e.to_string()))?;
        let values = home.path().join("values.json");
        std::fs::write(&values, Value::Object(job.values.clone()).to_string()).map_err(|e| refused(e.to_string()))?;
        let mut args: Vec<OsString> = vec!["template".into(), job.name.into(), job.archive.into()];
        args.extend(["--include-crds", "--namespace", job.namespace, "--values"].map(OsString::from));
        args.push(values.into());
        if !tests {
            args.push("--skip-tests".into());
        }
        if let Some(kubernetes) = job.kubernetes {
            args.extend(["--kube-version", kubernetes].map(OsString::from));
        }
        let limits = Limits { time: TIME, output: STREAM_LIMIT, memory: HELM_MEMORY };
        let ended = self.sandbox.run(&self.program, &args, home.path(), limits).await.map_err(&refused)?;
        if !ended.status.success() {
            return Err(refused(printable_excerpt(&ended.stderr)));
        }
        String::from_utf8(ended.stdout).map_err(|_| refused("helm's output is not text".to_owned()))
    }
}

/// The output of a program, bounded and without control characters.
fn printable_excerpt(stderr: &str) -> String {
    let clean: String = stderr.trim().chars().filter(|c| *c == '\n' || !c.is_control()).take(REPORTED).collect();
    let text = clean.strip_prefix("Error: ").unwrap_or(&clean);
    if text.is_empty() { "it printed nothing".to_owned() } else { text.to_owned() }
}

/// Fetches the catalogue's helm for this machine, and takes the program out of its archive.
async fn from_catalogue(
    catalogue: &Catalogue,
    zone: &Zone,
    origins: &Origins,
    folder: &Path,
) -> Result<PathBuf, BuildError> {
    let unusable = |reason: String| BuildError::from(ChartError::Helm { reason });
    let arch = match std::env::consts::ARCH {
        "x86_64" => Arch::Amd64,
        "aarch64" => Arch::Arm64,
        other => return Err(unusable(format!("the catalogue has none for this machine ({other})"))),
    };
    let component = catalogue.component(Program::Helm).ok_or_else(|| unusable("the catalogue has none".to_owned()))?;
    let version = newest(component).ok_or_else(|| unusable("the catalogue has no version of it".to_owned()))?;
    let url = component.url(version, arch);
    let (key, file_name) = (ArtifactKey::Binary(Program::Helm), component.file_name(version, arch));
    let pin = component.pin(version, arch);
    let checksum_url = component.checksum_url(version, arch);
    let wanted = file::Wanted {
        key: &key,
        file_name: &file_name,
        sha256: pin.map(|pin| pin.sha256),
        size: pin.and_then(|pin| pin.size),
        checksum_url: checksum_url.as_deref(),
    };
    let candidates = places::files(zone, &url);
    let checksums = checksum_url.as_deref().map(|url| places::files(zone, url)).unwrap_or_default();
    let locked = file::lock(&wanted, &candidates, &checksums, origins).await?;
    let want = Want { digest: Some(locked.digest), size: Some(locked.size), refuse_html: true, ..Want::default() };
    let fetched = origins.http.fetch(&candidates, &want, &origins.store, &|_, _| {}).await;
    fetched.map_err(|source| BuildError::Fetch { item: key.to_string(), source: Box::new(source) })?;
    let archive = origins.store.path(&locked.digest);
    let member = match component.payload(version, arch) {
        Payload::Archive(archive) => archive.members.into_iter().find(|(_, name)| name == "helm").map(|(path, _)| path),
        Payload::Raw(_) => None,
    };
    let program = folder.join("helm");
    let into = program.clone();
    let unpacked = tokio::task::spawn_blocking(move || unpack(&archive, member.as_deref(), &into)).await;
    let unpacked = unpacked.map_err(|e| BuildError::Worker(e.to_string()))?;
    unpacked.map_err(|e| unusable(format!("{file_name}: {e}")))?;
    Ok(program)
}

/// The release that is carried, or the newest that the catalogue has a digest of.
fn newest(component: &Component) -> Option<&str> {
    let known = || version::newest(component.versions.keys().map(String::as_str));
    component.default.as_deref().or_else(known)
}

/// Writes a program that can be run; `member` of an archive, or the file itself.
fn unpack(from: &Path, member: Option<&str>, to: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let open = || File::options().write(true).create_new(true).mode(0o700).open(to);
    let Some(member) = member else {
        return io::copy(&mut File::open(from)?.take(PROGRAM_LIMIT), &mut open()?).map(drop);
    };
    let mut archive = tar::Archive::new(MultiGzDecoder::new(File::open(from)?).take(PROGRAM_LIMIT));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path_bytes().into_owned();
        if path.strip_prefix(b"./").unwrap_or(&path) == member.as_bytes() && entry.header().entry_type().is_file() {
            return io::copy(&mut entry, &mut open()?).map(drop);
        }
    }
    Err(io::Error::other(format!("it has no {member}")))
}
