//! An archive from the control plane that made it, piece by piece, into a folder.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use kubexm_engine::backup::{ARCHIVE, BackupError};
use kubexm_files::DiskRoom;
use kubexm_plan::backup::{Archive, BackupAnswer, CHUNK};
use kubexm_spec::digest::Hasher;

use crate::backup_limit::LARGEST;
use crate::error::SessionError;

/// What a whole archive may take: 8 GiB, which is what etcd has at most by its own advice, at 200 kB/s. A host that sends less keeps
/// the lock of the cluster, and nobody may be there to interrupt a backup.
pub(super) const LONGEST: Duration = Duration::from_secs(12 * 3_600);

/// Writes the archive of a host to a folder. `read` asks for what is at an offset.
///
/// # Errors
/// The host sends something else than it has written, or not within that time; the folder cannot be written.
pub(super) async fn write<R, A>(
    archive: Archive,
    (host, folder): (&str, &Path),
    within: Duration,
    read: R,
) -> Result<(), SessionError>
where
    R: Fn(u64) -> A,
    A: Future<Output = Result<BackupAnswer, SessionError>>,
{
    let path = folder.join(ARCHIVE);
    let failed = |error: std::io::Error| SessionError::disk("write", &path, &error);
    let mut options = File::options();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    if archive.size > LARGEST {
        let text = format!("{host} has an archive of {} bytes, which no etcd fills; look at that host", archive.size);
        return Err(BackupError::CannotMake(text).into());
    }
    let started = Instant::now();
    let (mut hasher, mut offset, mut room) = (Hasher::default(), 0, DiskRoom::of(folder));
    while offset < archive.size {
        if offset > 0 && started.elapsed() >= within {
            let text = format!(
                "{host} has sent {offset} of the {} bytes of its archive in {} hours; look at the connection to it, and run again",
                archive.size,
                within.as_secs() / 3_600
            );
            return Err(BackupError::CannotMake(text).into());
        }
        let BackupAnswer::Bytes { bytes } = read(offset).await? else { return Err(misfit(host)) };
        let (count, whole) = (bytes.len() as u64, CHUNK.min(archive.size - offset));
        if count > whole {
            return Err(misfit(host));
        }
        hasher.update(&bytes);
        file.write_all(&bytes).and_then(|()| room.wrote(count)).map_err(failed)?;
        offset += count;
        // An agent reads whole pieces from its file: one that has less is another file by now.
        if count < whole {
            break;
        }
    }
    file.sync_all().map_err(failed)?;
    match offset == archive.size && hasher.finish() == archive.sha256 {
        true => Ok(()),
        false => {
            let text = format!("what {host} has sent is not the archive that it has written; run again");
            Err(BackupError::CannotMake(text).into())
        }
    }
}

/// A host that keeps to no protocol.
pub(super) fn misfit(host: &str) -> SessionError {
    BackupError::CannotMake(format!(
        "{host} gave another answer than was asked for; remove the agent there and run again"
    ))
    .into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kubexm_spec::Digest;

    use super::*;

    /// Fetches an archive from an agent that sends at most so many bytes at a time: how often it was asked, and what came of it.
    async fn fetched(content: &[u8], most: usize, within: Duration) -> (usize, Result<Vec<u8>, String>) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive { sha256: Digest::of(content), size: content.len() as u64 };
        let asked = AtomicUsize::new(0);
        let read = |offset: u64| {
            asked.fetch_add(1, Ordering::Relaxed);
            let rest = &content[usize::try_from(offset).unwrap()..];
            let bytes = rest[..rest.len().min(most)].to_vec();
            async move { Ok(BackupAnswer::Bytes { bytes }) }
        };
        let done = write(archive, ("cp1", folder.path()), within, read).await;
        let done = done.map(|()| fs::read(folder.path().join(ARCHIVE)).unwrap()).map_err(|error| error.to_string());
        (asked.into_inner(), done)
    }

    #[tokio::test]
    async fn an_archive_comes_in_whole_pieces_and_never_in_crumbs_without_end() {
        let piece = usize::try_from(CHUNK).unwrap();
        for (length, asked) in [(0, 0), (7, 1), (piece, 1), (2 * piece, 2), (2 * piece + 7, 3)] {
            let content = vec![7; length];
            assert_eq!(fetched(&content, piece, LONGEST).await, (asked, Ok(content.clone())));
        }
        let content = vec![7; 2 * piece];
        for (most, says) in [
            (0, "is not the archive"),
            (1, "is not the archive"),
            (piece - 1, "is not the archive"),
            (piece + 1, "gave another answer"),
        ] {
            let (asked, done) = fetched(&content, most, LONGEST).await;
            let error = done.unwrap_err();
            assert!(asked == 1 && error.contains(says) && error.contains("cp1"), "{most}, asked {asked}: {error}");
        }
    }

    #[tokio::test]
    async fn a_host_that_sends_for_half_a_day_is_not_waited_for() {
        let content = vec![7; usize::try_from(3 * CHUNK).unwrap()];
        let (asked, done) = fetched(&content, content.len() / 3, Duration::ZERO).await;
        let error = done.unwrap_err();
        assert!(asked == 1 && error.contains("cp1 has sent 1048576 of the 3145728 bytes"), "{asked}: {error}");
    }
}
