//! How long a disk takes to keep a small write. etcd answers nothing before its log is on the disk, and members that wait for it lose
//! their leader (etcd.io, "FAQ": 99 of 100 within 10 ms).

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::fsio::existing;

/// Bytes of a write, as in etcd's own advice for measuring a disk (fio, `--bs=2300`).
const WRITE: usize = 2300;
const WRITES: usize = 200;
/// A disk that is this slow needs no more writes to be told.
const LIMIT: Duration = Duration::from_secs(3);

/// The time of 99 of 100 of them, in microseconds. The file has no name, so nothing stays whatever happens.
pub(crate) fn measure(folder: &Path) -> Option<u64> {
    let at = existing(folder);
    let flags = rustix::fs::OFlags::TMPFILE.bits();
    let flags = i32::try_from(flags).ok()?;
    // A disk that cannot be measured (no such files there, full, read-only, failing) is what other checks name.
    let file = OpenOptions::new().write(true).mode(0o600).custom_flags(flags).open(at);
    file.and_then(|mut file| times(&mut file)).ok().and_then(percentile)
}

fn times(file: &mut File) -> std::io::Result<Vec<Duration>> {
    let (begun, bytes) = (Instant::now(), [b'k'; WRITE]);
    let mut times = Vec::new();
    while times.len() < WRITES && (times.is_empty() || begun.elapsed() < LIMIT) {
        let one = Instant::now();
        file.write_all(&bytes)?;
        file.sync_data()?;
        times.push(one.elapsed());
    }
    Ok(times)
}

fn percentile(mut times: Vec<Duration>) -> Option<u64> {
    times.sort();
    let at = (times.len() * 99).div_ceil(100).checked_sub(1)?;
    u64::try_from(times.get(at)?.as_micros()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_in_the_folder_and_a_time_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let told = measure(&folder.path().join("not/there"));
        assert!(told.is_none_or(|us| us > 0), "{told:?}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a list").count(), 0);
    }

    #[test]
    fn one_slow_write_of_a_hundred_is_no_slow_disk() {
        let times = |slow: u64| (0..200).map(|n| Duration::from_micros(if n < slow { 50_000 } else { 900 })).collect();
        assert_eq!(percentile(times(2)), Some(900));
        assert_eq!(percentile(times(3)), Some(50_000));
        assert_eq!(percentile(Vec::new()), None);
    }
}
