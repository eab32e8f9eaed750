//! A program that signs, where the key cannot be read: a hardware module, a key service.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use kubexm_archive::Signature;

use crate::{PublicKey, SigningError};

/// The most bytes that are taken from the program's standard output: a signature has a hundred.
const OUTPUT_LIMIT: u64 = 64 << 10;

/// The last bytes of its standard error that are shown.
const SHOWN: usize = 2000;

/// How long its last words are waited for when it has ended.
const GRACE: Duration = Duration::from_secs(1);

/// How often the program is looked at when it has closed its output and not ended.
const LOOK: Duration = Duration::from_millis(10);

/// The program, and what it is called with.
#[derive(Clone, Debug)]
pub struct Signer {
    /// A path, or a name that is looked for in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// How long it may take.
    pub timeout: Duration,
}

impl Signer {
    /// Gives it the bytes of manifest.json on standard input and takes the signature from its standard output. What does
    /// not hold for the public key is refused.
    pub fn sign(&self, manifest_json: &[u8], key: &PublicKey) -> Result<Signature, SigningError> {
        let given = self.run(manifest_json)?;
        key.signature_from(manifest_json, &given).ok_or_else(|| SigningError::ForeignResult {
            program: self.name(),
            length: given.len(),
            algorithm: key.algorithm().name(),
            key_id: key.id().to_string(),
        })
    }

    /// Whether there is such a program to start: reported before other work is done for it.
    pub fn check(&self) -> Result<(), SigningError> {
        let is_program =
            |path: &Path| path.metadata().is_ok_and(|there| there.is_file() && there.permissions().mode() & 0o111 != 0);
        // A name without a slash is looked for, as execvp(3) does.
        let found = match self.program.as_os_str().as_encoded_bytes().contains(&b'/') {
            true => is_program(&self.program),
            false => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                std::env::split_paths(&path).any(|folder| is_program(&folder.join(&self.program)))
            }
        };
        match found {
            true => Ok(()),
            false => Err(self.failed("cannot be started: no such file, or not executable".to_owned(), "")),
        }
    }

    fn run(&self, input: &[u8]) -> Result<Vec<u8>, SigningError> {
        let deadline = Instant::now() + self.timeout;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| self.failed(format!("cannot be started: {e}"), ""))?;
        let output = self.attended(&mut child, input, deadline);
        if output.is_err() {
            // It may have ended already; and one that cannot be ended is not waited for.
            let _ = child.kill().and_then(|()| child.wait());
        }
        output
    }

    /// Writes and reads on threads of their own: a program may give its answer, or close its input, whenever it likes.
    fn attended(&self, child: &mut Child, input: &[u8], deadline: Instant) -> Result<Vec<u8>, SigningError> {
        if let Some(mut stdin) = child.stdin.take() {
            let input = input.to_vec();
            // Not all of it read: the signature shows whether that matters.
            thread::spawn(move || stdin.write_all(&input));
        }
        let stdout = child.stdout.take().map(|stdout| aside(move || first(stdout)));
        let stderr = child.stderr.take().map(|stderr| aside(move || last(stderr)));
        let late = || self.failed(format!("did not end within {} s and was stopped", self.timeout.as_secs()), "");
        let output = match stdout.map(|stdout| stdout.recv_timeout(deadline.saturating_duration_since(Instant::now())))
        {
            None => Vec::new(),
            Some(Ok(Ok(bytes))) => bytes,
            Some(Ok(Err(e))) => return Err(self.failed(format!("gave output that cannot be read: {e}"), "")),
            Some(Err(_)) => return Err(late()),
        };
        let status = ended(child, deadline).map_err(|e| self.failed(format!("cannot be waited for: {e}"), ""))?;
        // What it left running may hold its standard error open for ever.
        let said = stderr.and_then(|stderr| stderr.recv_timeout(GRACE).ok()?.ok()).unwrap_or_default();
        match status {
            None => Err(late()),
            // Reported first: the program was cut off, and may have failed on that.
            Some(_) if output.len() as u64 > OUTPUT_LIMIT => {
                Err(self.failed(format!("gave more than {OUTPUT_LIMIT} bytes; expected the signature alone"), ""))
            }
            Some(status) if !status.success() => Err(self.failed(format!("failed ({status})"), &shown(&said))),
            Some(_) if output.is_empty() => {
                Err(self.failed("gave nothing on its standard output".to_owned(), &shown(&said)))
            }
            Some(_) => Ok(output),
        }
    }

    fn name(&self) -> String {
        self.program.display().to_string()
    }

    fn failed(&self, problem: String, said: &str) -> SigningError {
        let said = if said.is_empty() { String::new() } else { format!(":\n{said}") };
        SigningError::Signer { program: self.name(), problem: problem + &said }
    }
}

/// What a read on a thread of its own gives.
fn aside(read: impl FnOnce() -> io::Result<Vec<u8>> + Send + 'static) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    // Nobody waits any more when the program was too slow.
    thread::spawn(move || drop(sender.send(read())));
    receiver
}

/// Everything up to one byte more than the limit.
fn first(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(OUTPUT_LIMIT + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The last bytes of all there is, in bounded memory.
fn last(mut from: impl Read) -> io::Result<Vec<u8>> {
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(kept),
            Ok(n) => {
                kept.extend_from_slice(&buffer[..n]);
                kept.drain(..kept.len().saturating_sub(SHOWN));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// How it ended; nothing when it has not by then.
fn ended(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(Some(status)),
            None if Instant::now() >= deadline => return Ok(None),
            None => thread::sleep(LOOK),
        }
    }
}

/// As text that can do nothing to a terminal.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect()
}
