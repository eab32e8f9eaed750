//! State that the links of one run share: decrypted keys, digests of programs, and limits for parallel logins.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;
use russh::keys::PrivateKey;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use super::key::{self, Stored};
use super::secret::{Prompt, Question};

/// Parallel logins at one address. sshd randomly rejects connections from the eleventh that is not logged in
/// (`MaxStartups 10:30:100`), which would affect fifty hosts behind one bastion.
const LOGINS_PER_ADDRESS: usize = 5;
/// How often a passphrase may be mistyped.
const TRIES: usize = 3;

/// Shared by all links with a clone of the same options.
#[derive(Default)]
pub struct Shared {
    unlocked: Mutex<HashMap<PathBuf, Arc<PrivateKey>>>,
    programs: Mutex<HashMap<PathBuf, Digest>>,
    doors: StdMutex<HashMap<(String, u16), Arc<Semaphore>>>,
    /// Locked while a host key is recorded, so that links through one bastion record it once.
    pub(super) learning: Mutex<()>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    /// A private key; its passphrase is asked for once in a run. The error is a sentence.
    pub(super) async fn key(&self, path: &Path, prompt: &dyn Prompt) -> Result<Arc<PrivateKey>, String> {
        let text = match load(path).await? {
            Stored::Open(key) => return Ok(key),
            Stored::Locked(text) => text,
        };
        let mut unlocked = self.unlocked.lock().await;
        if let Some(key) = unlocked.get(path) {
            return Ok(Arc::clone(key));
        }
        let shown = path.display();
        for _ in 0..TRIES {
            let question = Question {
                who: format!("the key {shown}"),
                instructions: String::new(),
                text: "Passphrase:".to_owned(),
                echo: false,
            };
            let answer = prompt.ask(question).await.map_err(|nobody| {
                format!("the key {shown} is protected by a passphrase, and {nobody}; put it into ssh-agent (`ssh-add`)")
            })?;
            let (text, file) = (text.clone(), path.to_owned());
            let unlock = move || key::unlock(&file, &text, &answer.0);
            let opened = tokio::task::spawn_blocking(unlock).await.map_err(|error| error.to_string())?;
            if let Some(key) = opened? {
                unlocked.insert(path.to_owned(), Arc::clone(&key));
                return Ok(key);
            }
        }
        Err(format!("the passphrase of the key {shown} was wrong {TRIES} times"))
    }

    /// The digest of a program of the controller, computed once in a run.
    pub(super) async fn program(&self, path: &Path) -> std::io::Result<Digest> {
        let mut programs = self.programs.lock().await;
        if let Some(digest) = programs.get(path) {
            return Ok(*digest);
        }
        let file = path.to_owned();
        let hash = move || {
            let mut hasher = Hasher::default();
            std::io::copy(&mut std::fs::File::open(file)?, &mut hasher)?;
            Ok::<_, std::io::Error>(hasher.finish())
        };
        let digest = tokio::task::spawn_blocking(hash).await.map_err(std::io::Error::other)??;
        programs.insert(path.to_owned(), digest);
        Ok(digest)
    }

    /// Waits for permission to log in at an address.
    pub(super) async fn turn(&self, address: &str, port: u16) -> Option<OwnedSemaphorePermit> {
        let door = {
            let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(LOGINS_PER_ADDRESS));
            Arc::clone(doors.entry((address.to_owned(), port)).or_insert_with(new))
        };
        door.acquire_owned().await.ok()
    }
}

/// Reads a key file.
pub(super) async fn load(path: &Path) -> Result<Stored, String> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || key::load(&path)).await.map_err(|error| error.to_string())?
}
