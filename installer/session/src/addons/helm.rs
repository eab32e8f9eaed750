//! The bundle's helm on the controller, where somebody trusted has signed it: only to render, before any host is changed. It has no network use, no plugins and no home but a
//! folder that goes afterwards. Where the bundle has none for this machine, charts are rendered at their steps only.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use kubexm_archive::Bundle;
use kubexm_charts::{HELM_MEMORY, documents, objects};
use kubexm_manifests::Catalogue;
use kubexm_manifests::component::Payload;
use kubexm_spec::{Arch, ArtifactKey, Digest, Program, one_line};
use rustix::process::{Pid, Resource, Rlimit};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// Longer than any chart takes that does not loop.
const TIME: Duration = Duration::from_secs(60);
/// The most bytes of the program, and of a chart.
const PROGRAM_LIMIT: u64 = 256 << 20;
const CHART_LIMIT: u64 = 64 << 20;

/// A helm that can be run here.
pub(crate) struct Helm {
    program: PathBuf,
    folder: tempfile::TempDir,
}

/// A helm in a bundle.
pub(crate) struct Packed {
    bundle: Bundle,
    blob: Digest,
    /// Of the archive that the blob is.
    member: Option<String>,
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

impl Packed {
    /// None if the bundle has none for this machine.
    pub(crate) fn of(bundle: &Bundle, catalogue: &Catalogue) -> Option<Self> {
        let arch = match (std::env::consts::OS, std::env::consts::ARCH) {
            ("linux", "x86_64") => Arch::Amd64,
            ("linux", "aarch64") => Arch::Arm64,
            _ => return None,
        };
        let key = ArtifactKey::Binary(Program::Helm);
        let for_here = |platform: Option<kubexm_spec::Platform>| platform.is_none_or(|platform| platform.arch == arch);
        let mut artifacts = bundle.manifest().artifacts.iter();
        let artifact = artifacts.find(|artifact| artifact.key == key && for_here(artifact.platform))?;
        let member = match catalogue.component(Program::Helm)?.payload(&artifact.version, arch) {
            Payload::Raw(_) => None,
            Payload::Archive(archive) => {
                let member = archive.members.into_iter().find(|(_, name)| name == "helm").map(|(path, _)| path);
                Some(member.unwrap_or_default())
            }
        };
        Some(Self { bundle: bundle.clone(), blob: artifact.digest, member })
    }

    /// Below a folder in which programs can be run.
    pub(crate) async fn unpacked(self, folder: PathBuf) -> io::Result<Helm> {
        let unpack = move || {
            std::fs::create_dir_all(&folder)?;
            let folder = tempfile::Builder::new().prefix(".helm-").tempdir_in(folder)?;
            let program = folder.path().join("helm");
            let content = self.bundle.blob(&self.blob).map_err(io::Error::other)?;
            make(content, self.member.as_deref(), &program)?;
            Ok::<_, io::Error>(Helm { program, folder })
        };
        let helm = tokio::task::spawn_blocking(unpack).await.map_err(io::Error::other)??;
        // A home may be on a file system from which nothing is run.
        let mut tried = Command::new(&helm.program);
        tried.args(["version", "--short"]).env_clear().env("HOME", helm.folder.path());
        match within_limits(tried, String::new()).await? {
            (true, ..) => Ok(helm),
            (false, _, stderr) => Err(io::Error::other(printable(&stderr))),
        }
    }
}

impl Helm {
    /// Everything that an install would create, but tests: templates, definitions and hooks. The error is what helm says.
    pub(crate) async fn render(&self, bundle: &Bundle, job: &Job<'_>) -> Result<Vec<Value>, String> {
        let all = self.documents(bundle, job, true).await?;
        match objects::has_tests(&all) {
            false => Ok(all),
            true => Ok(objects::installed(all, self.documents(bundle, job, false).await?)),
        }
    }

    async fn documents(&self, bundle: &Bundle, job: &Job<'_>, tests: bool) -> Result<Vec<Value>, String> {
        let home = tempfile::tempdir_in(self.folder.path()).map_err(|error| error.to_string())?;
        let chart = home.path().join("chart.tgz");
        let archive = bundle.read(&kubexm_archive::members::blob_name(job.chart), CHART_LIMIT);
        std::fs::write(&chart, archive.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.program);
        command.arg("template").arg(job.name).arg(&chart);
        command.args(["--include-crds", "--namespace", job.namespace, "--values", "-"]);
        if !tests {
            command.arg("--skip-tests");
        }
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
        let values = Value::Object(job.values.clone()).to_string();
        let (ok, stdout, stderr) = within_limits(command, values).await.map_err(|error| error.to_string())?;
        if !ok {
            return Err(printable(&stderr));
        }
        let text = String::from_utf8(stdout).map_err(|_| "helm's output is not text".to_owned())?;
        documents::read(&text)
            .map_err(|error| format!("what helm renders cannot be read: {}: {}", error.place, error.problem))
    }
}

/// Whether it ended well, and what it printed. One that takes longer, or more memory, than any chart needs is ended.
async fn within_limits(mut command: Command, stdin: String) -> io::Result<(bool, Vec<u8>, Vec<u8>)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    match tokio::time::timeout(TIME, run(command, stdin)).await {
        Ok(ended) => ended,
        Err(_) => Err(io::Error::other(format!("helm did not end within {} s", TIME.as_secs()))),
    }
}

async fn run(mut command: Command, values: String) -> io::Result<(bool, Vec<u8>, Vec<u8>)> {
    let mut child = command.spawn()?;
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        let most = Rlimit { current: Some(HELM_MEMORY), maximum: Some(HELM_MEMORY) };
        rustix::process::prlimit(Some(pid), Resource::As, most)?;
    }
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

/// Bounded, and on one line.
fn printable(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    let text = one_line(text.strip_prefix("Error: ").unwrap_or(text));
    if text.is_empty() { "it printed nothing".to_owned() } else { text }
}

/// The program of a blob, or of a member of the archive that it is. A blob that is another than the manifest's is known at its end only:
/// before that nothing of it can be run.
fn make(mut blob: impl Read, member: Option<&str>, to: &Path) -> io::Result<()> {
    match member {
        None => copy(&mut blob, to)?,
        Some(member) => unpack(&mut blob, member, to)?,
    }
    io::copy(&mut blob, &mut io::sink())?;
    std::fs::set_permissions(to, Permissions::from_mode(0o700))
}

fn copy(from: impl Read, to: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    if io::copy(&mut from.take(PROGRAM_LIMIT + 1), &mut file)? > PROGRAM_LIMIT {
        return Err(io::Error::other(format!("the bundle's helm has more than {PROGRAM_LIMIT} bytes")));
    }
    file.flush()
}

fn unpack(archive: impl Read, member: &str, to: &Path) -> io::Result<()> {
    let mut archive = tar::Archive::new(MultiGzDecoder::new(archive).take(PROGRAM_LIMIT));
    for entry in archive.entries()? {
        let entry = entry?;
        let path = entry.path_bytes().into_owned();
        if path.strip_prefix(b"./").unwrap_or(&path) == member.as_bytes() && entry.header().entry_type().is_file() {
            let size = entry.size();
            copy(entry, to)?;
            return match to.metadata()?.len() == size {
                true => Ok(()),
                false => {
                    Err(io::Error::other(format!("the bundle's archive of helm has more than {PROGRAM_LIMIT} bytes")))
                }
            };
        }
    }
    Err(io::Error::other(format!("the bundle's archive of helm has no {member}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a bundle's reader: the error comes with the last bytes.
    struct Forged<'a>(&'a [u8]);

    impl Read for Forged<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match Read::read(&mut self.0, buffer)? {
                0 => Err(io::Error::other("its digest is another")),
                read => Ok(read),
            }
        }
    }

    #[test]
    fn a_forged_program_is_no_program_though_its_archive_ends_before_the_blob_does() {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(9);
        header.set_mode(0o755);
        tar.append_data(&mut header, "linux-amd64/helm", "#!/bin/sh".as_bytes()).unwrap();
        let mut archive = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        archive.write_all(&tar.into_inner().unwrap()).unwrap();
        let mut blob = archive.finish().unwrap();
        blob.resize(blob.len() + (1 << 20), 0);
        for member in [Some("linux-amd64/helm"), None] {
            let folder = tempfile::tempdir().unwrap();
            let program = folder.path().join("helm");
            let error = make(Forged(&blob), member, &program).unwrap_err();
            assert!(error.to_string().contains("its digest is another"), "{error}");
            let mode = std::fs::metadata(&program).unwrap().permissions().mode();
            assert_eq!(mode & 0o111, 0, "{mode:o}");
        }
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("helm");
        make(blob.as_slice(), Some("linux-amd64/helm"), &program).unwrap();
        assert_eq!(std::fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[tokio::test]
    async fn what_takes_more_memory_than_any_chart_is_ended_and_its_words_are_one_line() {
        let mut greedy = Command::new("/usr/bin/python3");
        // Not before it has its limit, which it is given when it runs.
        let line = "import resource, time\n\
                    while resource.getrlimit(resource.RLIMIT_AS)[0] < 0: time.sleep(.01)\n\
                    bytearray(6 << 30)";
        greedy.args(["-c", line]);
        let (ok, _, stderr) = within_limits(greedy, String::new()).await.unwrap();
        assert!(!ok && printable(&stderr).contains("MemoryError"), "{}", printable(&stderr));
        assert_eq!(printable(b"Error: a\n   the bundle is signed"), "a    the bundle is signed");
    }
}
