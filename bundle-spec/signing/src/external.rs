//! A program that signs, where the key cannot be read: a hardware module, a key service.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use kubexm_archive::Signature;

use crate::{PublicKey, SigningError};

/// The most bytes that are taken from the program's standard output: a signature has a hundred.
const OUTPUT_LIMIT: u64 = 64 << 10;

/// The last bytes of its standard error that are shown.
const SHOWN: usize = 2000;

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
        let stdout = child.stdout.take().map(|stdout| collected(stdout, OUTPUT_LIMIT));
        let stderr = child.stderr.take().map(|stderr| collected(stderr, u64::MAX));
        let late = || self.failed(format!("did not end within {} s and was stopped", self.timeout.as_secs()), "");
        let take = |from: Option<Receiver<io::Result<Vec<u8>>>>| match from {
            None => Ok(Vec::new()),
            Some(from) => match from.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Ok(bytes)) => Ok(bytes),
                Ok(Err(e)) => Err(self.failed(format!("gave what cannot be read: {e}"), "")),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(late()),
            },
        };
        let output = take(stdout)?;
        let said = take(stderr)?;
        let status = ended(child, deadline).map_err(|e| self.failed(format!("cannot be waited for: {e}"), ""))?;
        match status {
            None => Err(late()),
            // Told first: the program was cut off, and may have failed on that.
            Some(_) if output.len() as u64 > OUTPUT_LIMIT => {
                Err(self.failed(format!("gave more than {OUTPUT_LIMIT} bytes; wanted is the signature alone"), ""))
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

/// Everything up to one byte more than the limit.
fn collected(from: impl Read + Send + 'static, limit: u64) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let result =
            if limit == u64::MAX { last(from) } else { from.take(limit + 1).read_to_end(&mut bytes).map(|_| bytes) };
        // Nobody waits any more when the program was too slow.
        let _ = sender.send(result);
    });
    receiver
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
