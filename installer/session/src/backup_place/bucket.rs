//! Backups in a bucket of S3: `PREFIX/NAME/archive.age`, and `PREFIX/NAME/backup.json`, which is written last and is what makes a backup
//! of them. Nothing that a server says is trusted: what is fetched is verified like a folder that somebody has brought.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use kubexm_engine::backup::{ARCHIVE, BackupError, BackupHeader, HEADER, HEADER_LIMIT};
use kubexm_files::DiskRoom;
use kubexm_plan::backup::is_plain;
use kubexm_s3::{Listed, OpenUpload, S3Address, S3Client, S3Error};
use kubexm_spec::counted;
use kubexm_spec::digest::Hasher;

use super::transfers::Transfers;
use crate::backup_limit::LARGEST;
use crate::error::SessionError;
use crate::events;
use crate::files;
use crate::retention::{Candidates, IsKnown, Others};

/// In seconds: no upload lasts longer, so what is older was left.
const LEFT_AFTER: i64 = 86_400;
/// Of the uploads that were left, those that one backup looks at: a server lists 10,000, and may take minutes for each.
const LOOKED_AT: usize = 20;
/// The most headers that are read to find older backups: a server lists 50,000 of 16 MiB, and may take minutes for each.
const MOST_HEADERS: usize = 1_000;

/// A part of a bucket.
pub(crate) struct Bucket<'s> {
    pub(super) client: S3Client,
    pub(super) address: &'s S3Address,
    pub(super) transfers: Transfers<'s>,
}

/// What there is of a backup, in bytes.
#[derive(Default)]
struct Objects {
    header: Option<u64>,
    archive: Option<u64>,
}

impl Bucket<'_> {
    /// Asks for a listing: whether the server, the key, the region and the clock are right.
    pub async fn look(&self) -> Result<(), SessionError> {
        self.listed("").await.map(drop)
    }

    async fn listed(&self, below: &str) -> Result<Vec<Listed>, SessionError> {
        Ok(self.client.list(&self.address.key(below), &self.transfers).await?)
    }

    /// Refuses a name that something has.
    pub async fn check_free(&self, name: &str) -> Result<(), SessionError> {
        match self.listed(&format!("{name}/")).await?.is_empty() {
            true => Ok(()),
            false => {
                let text = format!("{} is there already; run again in a second", self.address.join(name));
                Err(BackupError::CannotMake(text).into())
            }
        }
    }

    /// Puts a backup that is complete in a folder there: the archive, which is read back, and then the header.
    pub async fn keep(&self, folder: &Path, name: &str, header: &BackupHeader) -> Result<String, SessionError> {
        let about = &header.about;
        let (archive, top) = (self.key(name, ARCHIVE), self.key(name, HEADER));
        events::phase(self.transfers.events, "upload");
        self.client.upload(&archive, (&folder.join(ARCHIVE), about.archive.size), &self.transfers).await?;
        let kept = async {
            events::phase(self.transfers.events, "read back");
            let mut hasher = Hasher::default();
            let mut take = |bytes: &[u8]| {
                hasher.update(bytes);
                Ok(())
            };
            let count = self.client.download(&archive, about.archive.size, &mut take, &self.transfers).await?;
            if count != about.archive.size || hasher.finish() != about.archive.sha256 {
                return Err(self.is_other(name, ARCHIVE));
            }
            let text = header.to_json()?;
            self.client.put(&top, text.clone().into(), &self.transfers).await?;
            let found = self.read(&top).await?;
            if found != text.as_bytes() { Err(self.is_other(name, HEADER)) } else { Ok(()) }
        };
        let Err(error) = kept.await else { return Ok(self.address.join(name).to_string()) };
        // Without the header nothing of it is a backup.
        for key in [&top, &archive] {
            if let Err(why) = self.client.delete(key, &self.transfers).await {
                let text = format!("what there is of {} can be removed: {why}", self.address.join(name));
                events::warning(self.transfers.events, text);
            }
        }
        Err(error)
    }

    fn is_other(&self, name: &str, file: &str) -> SessionError {
        let text = format!(
            "what the server gives back of {file} in {} is not what was sent to it; run again, or look at what is between it and this \
             machine",
            self.address.join(name)
        );
        BackupError::CannotMake(text).into()
    }

    fn key(&self, name: &str, file: &str) -> String {
        self.address.key(&format!("{name}/{file}"))
    }

    /// A small object.
    async fn read(&self, key: &str) -> Result<Vec<u8>, S3Error> {
        let mut bytes = Vec::new();
        let mut take = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        self.client.download(key, HEADER_LIMIT, &mut take, &self.transfers).await?;
        Ok(bytes)
    }

    /// Fetches the backup that is here into a folder; its archive only if it is known by its header. What it is worth is found
    /// out there.
    pub async fn fetch(&self, folder: &Path, is_known: IsKnown<'_>) -> Result<(), SessionError> {
        events::phase(self.transfers.events, "download");
        let text = match self.read(&self.address.key(HEADER)).await {
            Err(S3Error::NoObject { .. }) => {
                let (path, reason) = (self.address.to_string(), format!("it has no {HEADER}"));
                return Err(BackupError::NotThere { path, reason }.into());
            }
            read => read?,
        };
        files::write_private(&folder.join(HEADER), &text)?;
        let header = BackupHeader::read(folder).and_then(|header| is_known(folder, &header).map(|()| header));
        let header = header.map_err(|error| error.kept_at(folder, &self.address.to_string()))?;
        let size = header.about.archive.size;
        if size > LARGEST {
            let (path, reason) =
                (self.address.to_string(), format!("its archive has {size} bytes, which no etcd fills"));
            return Err(BackupError::Damaged { path, reason }.into());
        }
        let path = folder.join(ARCHIVE);
        let failed = |error: std::io::Error| SessionError::disk("write", &path, &error);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        let mut room = DiskRoom::of(folder);
        let mut take = |piece: &[u8]| {
            let written = file.write_all(piece).and_then(|()| room.wrote(piece.len() as u64));
            written.map_err(|source| S3Error::Disk { action: "write", path: path.display().to_string(), source })
        };
        match self.client.download(&self.address.key(ARCHIVE), size, &mut take, &self.transfers).await {
            Err(S3Error::NoObject { .. }) => {
                let (path, reason) = (self.address.to_string(), format!("it has no {ARCHIVE}"));
                Err(BackupError::NotThere { path, reason }.into())
            }
            done => Ok(done.map(drop)?),
        }
    }

    /// What is not a whole backup of the cluster is left out.
    pub async fn others(&self, made: &str, candidates: &Candidates<'_>) -> Result<Others, SessionError> {
        let cluster = &candidates.newest.cluster;
        let mut found: BTreeMap<String, Objects> = BTreeMap::new();
        for listed in self.listed("").await? {
            let rest = listed.key.strip_prefix(&self.address.key("")).unwrap_or_default();
            let Some((name, file)) = rest.split_once('/').filter(|(name, _)| is_plain(name)) else { continue };
            let objects = found.entry(name.to_owned()).or_default();
            match file {
                HEADER => objects.header = Some(listed.size),
                ARCHIVE => objects.archive = Some(listed.size),
                _ => {}
            }
        }
        // Those with a name of this cluster first, and the oldest first: what is removed of some would be removed of all, too.
        let mut found: Vec<(String, Objects)> = found.into_iter().collect();
        found.sort_by_key(|(name, _)| !is_of(name, cluster));
        let (mut all, mut headers, mut unfinished) = (Vec::new(), 0, 0);
        for (name, objects) in found {
            // An object that comes empty at once is not interrupted by its own transfer.
            if self.transfers.cancel.is_cancelled() {
                return Err(SessionError::Interrupted);
            }
            let at = self.address.join(&name);
            if at.to_string() == made {
                continue;
            }
            let Objects { header: Some(header), archive: Some(archive) } = objects else {
                if objects.archive.is_some() && is_of(&name, cluster) {
                    unfinished += 1;
                    if unfinished <= LOOKED_AT {
                        let text = format!("{at} has no {HEADER}: a backup that was not finished; it can be removed");
                        events::warning(self.transfers.events, text);
                    }
                }
                continue;
            };
            if header > HEADER_LIMIT {
                continue;
            }
            headers += 1;
            if headers > MOST_HEADERS {
                continue;
            }
            let bytes = self.read(&self.key(&name, HEADER)).await?;
            let Ok(header) = BackupHeader::parse(&bytes, Path::new(&at.to_string())) else { continue };
            all.extend(candidates.kept(at.to_string(), name, &header, archive));
        }
        if unfinished > LOOKED_AT {
            let more = counted((unfinished - LOOKED_AT) as u64, "more backup");
            let text = format!("without a {HEADER} below {}: {more}; they can be removed", self.address);
            events::warning(self.transfers.events, text);
        }
        let not_looked_at = (headers > MOST_HEADERS).then(|| {
            let more = counted((headers - MOST_HEADERS) as u64, "more backup");
            format!(
                "{}: not looked at: {more} than {MOST_HEADERS}; give each cluster a prefix of its own",
                self.address
            )
        });
        Ok(Others { whole: all, not_looked_at })
    }

    /// The header goes last: without it nobody would know what the rest is.
    pub async fn remove(&self, name: &str) -> Result<(), S3Error> {
        self.client.delete(&self.key(name, ARCHIVE), &self.transfers).await?;
        self.client.delete(&self.key(name, HEADER), &self.transfers).await
    }

    /// Removes the parts of uploads of a cluster's archives that were left. It is not what was asked for, so it fails nothing.
    pub async fn tidy(&self, cluster: &str, now: i64) {
        let below = self.address.key("");
        let open = match self.client.open_uploads(&below, &self.transfers).await {
            Ok(open) => open,
            Err(error) => {
                let text = format!("it is not known whether earlier backups have left parts of an upload: {error}");
                return events::warning(self.transfers.events, text);
            }
        };
        let ours = open.into_iter().filter_map(|upload| {
            let (name, file) = upload.key.strip_prefix(&below)?.split_once('/')?;
            let (at, is_ours) = (self.address.join(name), file == ARCHIVE && is_of(name, cluster));
            is_ours.then_some((at, upload))
        });
        let is_left = |(_, upload): &(S3Address, OpenUpload)| {
            upload.began.is_some_and(|began| now.saturating_sub(began) >= LEFT_AFTER)
        };
        let (left, others): (Vec<_>, Vec<_>) = ours.partition(is_left);
        for (at, _) in others.iter().take(LOOKED_AT) {
            let text =
                format!("an upload of {at} is not complete; if nobody makes it any more, it is removed after a day");
            events::warning(self.transfers.events, text);
        }
        let mut looked_at = 0;
        for (at, upload) in left.iter().take(LOOKED_AT) {
            // The backup is there: nobody waits for this.
            if self.transfers.cancel.is_cancelled() {
                break;
            }
            looked_at += 1;
            let removed = self.client.abort(&upload.key, &upload.id, &self.transfers).await;
            let text = match &removed {
                Ok(()) => format!("parts that a backup had left are removed: {at}"),
                Err(error) => format!("parts that a backup has left stay: {error}"),
            };
            events::note(self.transfers.events, text);
            if removed.is_err() {
                break;
            }
        }
        let rest = left.len() - looked_at + others.len().saturating_sub(LOOKED_AT);
        if rest > 0 {
            let text = format!(
                "not looked at now: {} below {} that did not complete; later backups remove the parts that are a day old",
                counted(rest as u64, "more upload"),
                self.address,
            );
            events::warning(self.transfers.events, text);
        }
    }
}

/// A name that no other home gives to a backup of the same second: each would write over the other's, and remove both.
pub(super) fn new_name(cluster: &str, time: &str) -> Result<String, SessionError> {
    let mut random = [0; 4];
    getrandom::fill(&mut random)
        .map_err(|error| BackupError::CannotMake(format!("the system's random source failed: {error}")))?;
    Ok(format!("{cluster}-{time}-{:08x}", u32::from_be_bytes(random)))
}

/// Whether a backup of the cluster has such a name: `lab-20260921T141321Z-1f0c7a2e`, and without its end one of an earlier program.
pub(super) fn is_of(name: &str, cluster: &str) -> bool {
    let Some(rest) = name.strip_prefix(cluster).and_then(|rest| rest.strip_prefix('-')) else { return false };
    let (time, end) = rest.split_once('-').map_or((rest, None), |(time, end)| (time, Some(end)));
    let digit_or_mark = |c: char| c.is_ascii_digit() || "TZ".contains(c);
    let is_end = |end: &str| end.len() == 8 && end.chars().all(|c| c.is_ascii_hexdigit());
    is_plain(name) && time.len() == 16 && time.chars().all(digit_or_mark) && end.is_none_or(is_end)
}
