//! Runs a program on foreign input: nothing of this machine's environment, a home of its own that is removed
//! afterwards, no network where the kernel lets us take it away (util-linux `unshare`, a user and a network
//! namespace), limits of time and memory, and no more output than is said.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use kubexm_charts::HELM_MEMORY as MEMORY;
use rustix::process::{Pid, Resource, Rlimit};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// Where util-linux's program is.
const UNSHARE: [&str; 2] = ["/usr/bin/unshare", "/bin/unshare"];
/// The most bytes of what a program says is wrong.
const STDERR_LIMIT: u64 = 64 << 10;

/// How programs are run here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    unshare: Option<PathBuf>,
}

/// Bounds of one run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The program is killed after it.
    pub time: Duration,
    /// Bytes of standard output.
    pub output: u64,
    /// Bytes of its addresses.
    pub memory: u64,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// All of it.
    pub stdout: Vec<u8>,
    /// The beginning of it, as text.
    pub stderr: String,
}

impl Sandbox {
    /// Without a network where this machine's kernel allows that.
    pub async fn probe(folder: &Path) -> Self {
        let limits = Limits { time: Duration::from_secs(10), output: 1 << 10, memory: MEMORY };
        for unshare in UNSHARE.map(PathBuf::from).into_iter().filter(|path| path.exists()) {
            let sandbox = Self { unshare: Some(unshare) };
            let tried = sandbox.run(Path::new("/bin/sh"), &["-c", "exit 0"], folder, limits).await;
            if tried.is_ok_and(|ended| ended.status.success()) {
                return sandbox;
            }
        }
        Self::default()
    }

    /// Whether what runs has no network.
    pub const fn is_offline(&self) -> bool {
        self.unshare.is_some()
    }

    /// Runs a program in `folder`, which is also its home. The error states why there is no exit status.
    pub async fn run<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        args: &[A],
        folder: &Path,
        limits: Limits,
    ) -> Result<Ended, String> {
        let mut command = match &self.unshare {
            Some(unshare) => {
                let mut command = Command::new(unshare);
                command.args(["--user", "--map-root-user", "--net", "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(args).env_clear().current_dir(folder).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        for name in ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env(name, folder);
        }
        for (name, below) in HELM {
            command.env(name, folder.join(below));
        }
        let mut child = command.spawn().map_err(|e| format!("{} does not start: {e}", program.display()))?;
        // unshare becomes the program, and keeps the limit.
        if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            let most = Rlimit { current: Some(limits.memory), maximum: Some(limits.memory) };
            rustix::process::prlimit(Some(pid), Resource::As, most)
                .map_err(|e| format!("the memory of {} cannot be limited: {e}", program.display()))?;
        }
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let run = async {
            let read = async {
                let (stdout, stderr) = tokio::join!(all(stdout, limits.output), all(stderr, STDERR_LIMIT));
                (stdout, stderr)
            };
            let (stdout, stderr) = read.await;
            let stdout = stdout?;
            // Whoever says too much is not heard to the end, and dies of it.
            let stderr = stderr.unwrap_or_else(|cut| cut.so_far);
            let status = child.wait().await.map_err(|e| Cut { so_far: Vec::new(), why: e.to_string() })?;
            let stderr = String::from_utf8_lossy(&stderr).into_owned();
            Ok::<_, Cut>(Ended { status, stdout, stderr })
        };
        match tokio::time::timeout(limits.time, run).await {
            Ok(Ok(ended)) => Ok(ended),
            Ok(Err(cut)) => Err(cut.why),
            Err(_) => Err(format!("it had not finished after {} s", limits.time.as_secs())),
        }
    }
}

/// Folders of helm's own, below the home it is given.
const HELM: [(&str, &str); 7] = [
    ("HELM_CACHE_HOME", "helm-home/cache"),
    ("HELM_CONFIG_HOME", "helm-home/config"),
    ("HELM_DATA_HOME", "helm-home/data"),
    ("HELM_PLUGINS", "helm-home/plugins"),
    ("HELM_REGISTRY_CONFIG", "helm-home/registry.json"),
    ("HELM_REPOSITORY_CONFIG", "helm-home/repositories.yaml"),
    ("HELM_REPOSITORY_CACHE", "helm-home/repository"),
];

/// Output that goes beyond its limit, or breaks off.
struct Cut {
    so_far: Vec<u8>,
    why: String,
}

async fn all(from: Option<impl AsyncRead + Unpin>, limit: u64) -> Result<Vec<u8>, Cut> {
    let mut bytes = Vec::new();
    let Some(from) = from else { return Ok(bytes) };
    if let Err(error) = from.take(limit + 1).read_to_end(&mut bytes).await {
        return Err(Cut { so_far: bytes, why: error.to_string() });
    }
    if bytes.len() as u64 > limit {
        bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        return Err(Cut { so_far: bytes, why: format!("it printed more than {limit} bytes") });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { time: Duration::from_secs(60), output: 4096, memory: MEMORY };

    async fn shell(sandbox: &Sandbox, line: &str, limits: Limits) -> Result<Ended, String> {
        let folder = tempfile::tempdir().unwrap();
        sandbox.run(Path::new("/bin/sh"), &["-c", line], folder.path(), limits).await
    }

    #[tokio::test]
    async fn nothing_of_our_environment_is_seen() {
        let ended = shell(&Sandbox::default(), "export -p; pwd", LIMITS).await.unwrap();
        let text = String::from_utf8(ended.stdout).unwrap();
        assert!(!text.contains("CARGO"), "{text}");
        let home = text.lines().find_map(|line| line.strip_prefix("export HOME=")).unwrap().trim_matches(['\'', '"']);
        assert_eq!(text.lines().last().unwrap(), home);
    }

    #[tokio::test]
    async fn where_the_kernel_allows_it_there_is_no_network() {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::probe(folder.path()).await;
        let ended = shell(&sandbox, "exec /bin/cat /proc/net/dev", LIMITS).await.unwrap();
        let text = String::from_utf8(ended.stdout).unwrap();
        let cards = text.lines().filter(|line| line.contains(':') && !line.trim_start().starts_with("lo:")).count();
        assert!(!sandbox.is_offline() || cards == 0, "{text}");
    }

    #[tokio::test]
    async fn a_program_that_takes_more_memory_than_any_chart_is_ended_with_and_without_a_network() {
        let folder = tempfile::tempdir().unwrap();
        for sandbox in [Sandbox::default(), Sandbox::probe(folder.path()).await] {
            // Not before it has its limit, which it is given when it runs.
            let greedy = "import resource, time\n\
                          while resource.getrlimit(resource.RLIMIT_AS)[0] < 0: time.sleep(.01)\n\
                          bytearray(6 << 30)";
            let args = ["-c", greedy];
            let ended = sandbox.run(Path::new("/usr/bin/python3"), &args, folder.path(), LIMITS).await.unwrap();
            assert!(!ended.status.success() && ended.stderr.contains("MemoryError"), "{}", ended.stderr);
        }
    }

    #[tokio::test]
    async fn a_program_that_does_not_end_or_prints_too_much_is_killed() {
        let short = Limits { time: Duration::from_millis(300), ..LIMITS };
        assert!(shell(&Sandbox::default(), "while :; do :; done", short).await.unwrap_err().contains("not finished"));
        let endless = "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done";
        assert!(shell(&Sandbox::default(), endless, LIMITS).await.unwrap_err().contains("more than 4096 bytes"));
        let loud = "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaa >&2; done";
        let ended = shell(&Sandbox::default(), loud, LIMITS).await.unwrap();
        assert!(!ended.status.success() && ended.stderr.len() == 64 << 10);
    }
}
