//! Waits for one server that many transfers report at once: one line is enough.

use std::time::{Duration, Instant};

use kubexm_spec::reference::server_of;

/// The waits that were shown last.
#[derive(Default)]
pub(crate) struct Waits(Vec<Shown>);

struct Shown {
    server: String,
    reason: String,
    attempt: Option<u64>,
    /// When the next try of it begins: what comes later is news.
    until: Instant,
}

impl Waits {
    /// Whether the same try of the same server for the same reason was not shown yet; from now on it was.
    pub(crate) fn is_new(&mut self, origin: &str, reason: &str, attempt: Option<u64>, within: Duration) -> bool {
        let now = Instant::now();
        self.0.retain(|shown| shown.until > now);
        let server = server_of(origin);
        let known = |shown: &Shown| shown.server == server && shown.reason == reason && shown.attempt == attempt;
        if self.0.iter().any(known) {
            return false;
        }
        self.0.push(Shown { server: server.to_owned(), reason: reason.to_owned(), attempt, until: now + within });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_try_of_a_server_is_shown_once_however_many_transfers_wait_for_it() {
        let (mut waits, minute) = (Waits::default(), Duration::from_secs(60));
        let mut new = |origin: &str, reason: &str, attempt: u64| waits.is_new(origin, reason, Some(attempt), minute);
        assert!(new("https://a.test/v2/one", "503", 2));
        assert!(!new("https://a.test/v2/two", "503", 2));
        assert!(new("https://b.test/v2/one", "503", 2) && new("https://a.test/v2/one", "500", 2));
        assert!(new("https://a.test/v2/one", "503", 3));
        // What has no try to come is over at once.
        assert!(waits.is_new("https://c.test/", "503", None, Duration::ZERO));
        assert!(waits.is_new("https://c.test/", "503", None, Duration::ZERO));
    }
}
