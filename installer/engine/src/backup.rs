//! A backup of a cluster in a folder of the controller: `backup.json`, which says of which cluster it is and for whom, and
//! `archive.age`, which a control plane has encrypted.
//!
//! Each archive has a key of its own, which is in `backup.json`, sealed (age) for the operators. So no host has what opens it,
//! and for a restore the archive goes to the hosts as it is, with its key and not the operator's.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::str::FromStr;

use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age::secrecy::ExposeSecret as _;
use age::x25519;
use kubexm_plan::backup::{Archive, SNAPSHOT_MEMBER, SnapshotFacts};
use kubexm_plan::{ClusterId, Recipient};
use kubexm_spec::digest::Hasher;
use kubexm_spec::{ExitCode, ExitError};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::operator::OperatorIdentity;

const SCHEMA: &str = "kubexm.io/backup/v1";
/// The file that says what a backup is.
pub const HEADER: &str = "backup.json";
/// The encrypted archive.
pub const ARCHIVE: &str = "archive.age";
/// Longer than any header.
const HEADER_LIMIT: u64 = 1 << 20;
/// Of the snapshot (SHA-256), after its pages.
const CHECKSUM: u64 = 32;

/// What a backup is. Not secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupAbout {
    /// `metadata.name`.
    pub cluster: String,
    pub cluster_id: ClusterId,
    /// In seconds of Unix time.
    pub created: i64,
    /// Version of the API server; none if it did not answer.
    pub kubernetes: Option<String>,
    /// The control plane that it was made on.
    pub host: String,
    /// Program and version.
    pub program: String,
    /// For whom. Sorted by key.
    pub recipients: Vec<Recipient>,
    pub archive: Archive,
    pub etcd: SnapshotFacts,
}

/// `backup.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupHeader {
    schema: String,
    #[serde(flatten)]
    pub about: BackupAbout,
    /// An age file, armored.
    sealed: String,
}

/// What is inside the age file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Inside {
    schema: String,
    about: BackupAbout,
    key: String,
}

/// Opens one archive. Secret.
pub struct BackupKey(x25519::Identity);

impl std::fmt::Debug for BackupKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

/// Why a backup cannot be used. No text shows a key.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is none.
    #[error("{path} is no backup: {reason}; name the folder with {HEADER} and {ARCHIVE}")]
    NotThere { path: String, reason: String },
    /// A newer program wrote it.
    #[error(
        "{path}: its schema is {schema}, and this program reads {SCHEMA}: use the kubexm-install that made it, or a newer one"
    )]
    Newer { path: String, schema: String },
    /// It is not what was written.
    #[error("{path} is damaged: {reason}; use another backup")]
    Damaged { path: String, reason: String },
    /// The archive was cut off.
    #[error("{path} was cut off: it has {found} bytes of {wanted}; copy it again, or use another backup")]
    Cut { path: String, found: u64, wanted: u64 },
    /// What is written outside is not what was sealed.
    #[error("{path}: somebody changed it: what it says is not what was sealed; use another backup")]
    Changed { path: String },
    /// It is of another cluster.
    #[error("{path} is a backup of cluster {found} (id {found_id}), and not of {wanted} (id {wanted_id})")]
    OtherCluster { path: String, found: String, found_id: ClusterId, wanted: String, wanted_id: ClusterId },
    /// It is sealed for others.
    #[error(
        "{path} is sealed for {for_whom}, and not for the identity of this home ({own}): use the home of one of them, or add the \
         line of an identity that was kept elsewhere to this home's identity file"
    )]
    ForOthers { path: String, for_whom: String, own: String },
    /// It cannot be made.
    #[error("no backup can be made: {0}")]
    CannotMake(String),
    /// It cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Disk { action: &'static str, path: String, source: std::io::Error },
}

impl ExitError for BackupError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Disk { .. } => ExitCode::Disk,
            Self::CannotMake(_) => ExitCode::Preflight,
            _ => ExitCode::BackupUnusable,
        }
    }
}

fn disk<'p>(action: &'static str, path: &'p Path) -> impl Fn(std::io::Error) -> BackupError + 'p {
    move |source| BackupError::Disk { action, path: shown(path), source }
}

fn shown(path: &Path) -> String {
    path.display().to_string().escape_default().collect()
}

impl BackupKey {
    /// A new one.
    pub fn generate() -> Self {
        Self(x25519::Identity::generate())
    }

    /// The public key that an archive is encrypted for.
    pub fn recipient(&self) -> String {
        self.0.to_public().to_string()
    }

    /// As a value of a slot.
    pub fn secret(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.0.to_string().expose_secret().as_bytes().to_vec())
    }
}

impl BackupHeader {
    /// Seals the key of an archive for the recipients of `about`.
    ///
    /// # Errors
    /// A recipient is no public key.
    pub fn seal(about: BackupAbout, key: &BackupKey) -> Result<Self, BackupError> {
        let failed =
            |error: &dyn std::fmt::Display| BackupError::CannotMake(format!("its key cannot be sealed: {error}"));
        let secret = key.0.to_string();
        let inside = Inside { schema: SCHEMA.to_owned(), about: about.clone(), key: secret.expose_secret().to_owned() };
        let plain = Zeroizing::new(serde_json::to_vec(&inside).map_err(|error| failed(&error))?);
        let of = |recipient: &Recipient| {
            x25519::Recipient::from_str(&recipient.key)
                .map_err(|_| failed(&format!("{recipient} is no public key of age; correct spec.operators")))
        };
        let keys = about.recipients.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        let encryptor = age::Encryptor::with_recipients(keys.iter().map(|key| key as &dyn age::Recipient))
            .map_err(|error| failed(&error))?;
        let mut sealed = Vec::new();
        let written = (|| {
            let mut writer = encryptor.wrap_output(ArmoredWriter::wrap_output(&mut sealed, Format::AsciiArmor)?)?;
            writer.write_all(&plain)?;
            writer.finish()?.finish().map(drop)
        })();
        written.map_err(|error: std::io::Error| failed(&error))?;
        let sealed = String::from_utf8(sealed).map_err(|error| failed(&error))?;
        Ok(Self { schema: SCHEMA.to_owned(), about, sealed })
    }

    /// Reads the header of a backup's folder.
    ///
    /// # Errors
    /// There is none, it is damaged, or of a newer program.
    pub fn read(folder: &Path) -> Result<Self, BackupError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: String,
        }
        let path = folder.join(HEADER);
        let not_there = |reason: String| BackupError::NotThere { path: shown(folder), reason };
        let file = File::open(&path).map_err(|error| not_there(format!("{HEADER}: {error}")))?;
        let mut text = Vec::new();
        file.take(HEADER_LIMIT).read_to_end(&mut text).map_err(disk("read", &path))?;
        let damaged = |error: serde_json::Error| BackupError::Damaged { path: shown(&path), reason: error.to_string() };
        let Schema { schema } = serde_json::from_slice(&text).map_err(damaged)?;
        if schema != SCHEMA {
            let schema = schema.escape_default().take(80).collect();
            return Err(BackupError::Newer { path: shown(&path), schema });
        }
        serde_json::from_slice(&text).map_err(damaged)
    }

    /// The key of the archive.
    ///
    /// # Errors
    /// It is sealed for others, or was changed.
    pub fn open(&self, folder: &Path, identity: &OperatorIdentity) -> Result<BackupKey, BackupError> {
        let path = || shown(&folder.join(HEADER));
        let damaged = |error: &dyn std::fmt::Display| BackupError::Damaged { path: path(), reason: error.to_string() };
        let decryptor =
            age::Decryptor::new(ArmoredReader::new(self.sealed.as_bytes())).map_err(|error| damaged(&error))?;
        let mut reader = decryptor.decrypt(identity.all()).map_err(|error| match error {
            age::DecryptError::NoMatchingKeys => BackupError::ForOthers {
                path: shown(folder),
                for_whom: self.about.recipients.iter().map(Recipient::to_string).collect::<Vec<_>>().join(", "),
                own: identity.recipient(),
            },
            error => damaged(&error),
        })?;
        let mut plain = Zeroizing::new(Vec::new());
        reader.read_to_end(&mut plain).map_err(|error| damaged(&error))?;
        // serde's texts may show what they read.
        let inside: Inside = serde_json::from_slice(&plain).map_err(|_| damaged(&"what is inside is no document"))?;
        let key = Zeroizing::new(inside.key);
        if inside.schema != self.schema || inside.about != self.about {
            return Err(BackupError::Changed { path: path() });
        }
        x25519::Identity::from_str(&key).map(BackupKey).map_err(|_| damaged(&"its key is none"))
    }

    /// Refuses a backup of another cluster. One without a known id is compared by its name.
    ///
    /// # Errors
    /// It is of another one.
    pub fn check_cluster(&self, folder: &Path, wanted: &str, wanted_id: ClusterId) -> Result<(), BackupError> {
        if self.about.cluster_id == wanted_id {
            return Ok(());
        }
        let (found, found_id) = (self.about.cluster.escape_default().collect(), self.about.cluster_id);
        Err(BackupError::OtherCluster { path: shown(folder), found, found_id, wanted: wanted.to_owned(), wanted_id })
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// It is not representable as JSON, which is a fault of the program.
    pub fn to_json(&self) -> Result<String, BackupError> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| BackupError::CannotMake(error.to_string()))
    }
}

/// Reads the whole archive and compares it with the header.
///
/// # Errors
/// It was cut off or altered.
pub fn verify_archive(folder: &Path, about: &BackupAbout) -> Result<(), BackupError> {
    let path = folder.join(ARCHIVE);
    let mut file = File::open(&path)
        .map_err(|error| BackupError::NotThere { path: shown(folder), reason: format!("{ARCHIVE}: {error}") })?;
    let found = file.metadata().map_err(disk("look at", &path))?.len();
    if found < about.archive.size {
        return Err(BackupError::Cut { path: shown(&path), found, wanted: about.archive.size });
    }
    let mut hasher = Hasher::default();
    each(&mut file, |bytes| hasher.update(bytes)).map_err(disk("read", &path))?;
    if found == about.archive.size && hasher.finish() == about.archive.sha256 {
        return Ok(());
    }
    let reason = format!("its bytes are not those that were written (sha256 {})", about.archive.sha256.hex());
    Err(BackupError::Damaged { path: shown(&path), reason })
}

/// Decrypts the archive to its end and checks the snapshot in it: its size, and the checksum that etcd has put behind it. Returns
/// the names of the other files.
///
/// # Errors
/// It cannot be decrypted, or has no whole snapshot.
pub fn verify_contents(folder: &Path, about: &BackupAbout, key: &BackupKey) -> Result<Vec<String>, BackupError> {
    let path = folder.join(ARCHIVE);
    let damaged = |reason: String| BackupError::Damaged { path: shown(&path), reason };
    let file = File::open(&path).map_err(disk("read", &path))?;
    let decryptor = age::Decryptor::new(BufReader::new(file)).map_err(|error| damaged(error.to_string()))?;
    let reader = decryptor
        .decrypt(std::iter::once(&key.0 as &dyn age::Identity))
        .map_err(|error| damaged(format!("it cannot be decrypted: {error}")))?;
    let mut tar = tar::Archive::new(reader);
    let (mut names, mut snapshot) = (Vec::new(), None);
    let broken = |error: std::io::Error| damaged(error.to_string());
    for entry in tar.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let name = entry.path().map_err(broken)?.display().to_string();
        if name == SNAPSHOT_MEMBER {
            let size = entry.size();
            snapshot = Some((size, is_whole(&mut entry, size).map_err(broken)?));
        } else if entry.header().entry_type().is_file() {
            names.push(name);
        }
    }
    // The rest of the stream, whose end age authenticates.
    each(&mut tar.into_inner(), |_| {}).map_err(broken)?;
    match snapshot {
        Some((size, true)) if size == about.etcd.size => Ok(names),
        Some(_) => Err(damaged("the snapshot of etcd in it does not match its own checksum".to_owned())),
        None => Err(damaged("it has no snapshot of etcd".to_owned())),
    }
}

/// Whether the checksum at the end is of what comes before.
fn is_whole(reader: &mut impl Read, size: u64) -> std::io::Result<bool> {
    let Some(data) = size.checked_sub(CHECKSUM) else { return Ok(false) };
    let mut hasher = Hasher::default();
    each(&mut reader.by_ref().take(data), |bytes| hasher.update(bytes))?;
    let mut checksum = String::new();
    each(&mut reader.take(CHECKSUM), |bytes| {
        checksum.extend(bytes.iter().map(|byte| format!("{byte:02x}")));
    })?;
    Ok(hasher.finish().hex() == checksum)
}

/// In pieces.
fn each(reader: &mut impl Read, mut take: impl FnMut(&[u8])) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 17];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(()),
            count => take(&buffer[..count]),
        }
    }
}
