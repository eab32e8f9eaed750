//! The one scheduler of all transfers: how many at once, by connections and by bytes in flight; how fast; and what is
//! remembered of each host for the run.
//!
//! Many small files want many connections (each costs a round trip), few large ones want few (each fills the line). So a
//! transfer takes a place among all connections, one among its host's, and as many bytes of one budget as it is large, up to
//! a share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::{HttpOptions, TransportError};

/// What the budget of bytes is counted in.
const UNIT: u64 = 64 << 10;
/// The most that one transfer takes of the budget, in bytes; also what one of unknown size takes.
const SHARE: u64 = 8 << 20;
/// Connections to one host that fail one after the other, whoever tries, before those who can go elsewhere do.
const FAILURES: u32 = 4;
/// The longest rest that is remembered.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Limits and memory that all transfers share.
#[derive(Debug)]
pub(crate) struct Schedule {
    connections: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    units: u32,
    per_host: usize,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
    /// Whether any host has given something.
    online: Arc<AtomicBool>,
    rate: Option<Rate>,
}

/// Leave for one transfer; given back when dropped.
pub(crate) struct Permit(#[expect(dead_code, reason = "held until the transfer is over")] [OwnedSemaphorePermit; 3]);

impl Schedule {
    pub fn new(options: &HttpOptions) -> Self {
        let units = u32::try_from(options.bytes_in_flight.div_ceil(UNIT)).unwrap_or(u32::MAX).clamp(1, 1 << 20);
        Self {
            connections: Arc::new(Semaphore::new(options.parallel.max(1))),
            bytes: Arc::new(Semaphore::new(units as usize)),
            units,
            per_host: options.parallel_per_host.max(1),
            hosts: Mutex::default(),
            online: Arc::default(),
            rate: options.limit_rate.map(Rate::new),
        }
    }

    /// What is remembered of a host (`name:port`).
    pub fn host(&self, name: &str) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            hosts
                .entry(name.to_owned())
                .or_insert_with(|| Arc::new(Host::new(self.per_host, Arc::clone(&self.online)))),
        )
    }

    /// Waits for leave to move so many bytes from a host.
    pub async fn permit(&self, host: &str, bytes: Option<u64>) -> Result<Permit, TransportError> {
        let host = self.host(host);
        let closed = |e: tokio::sync::AcquireError| TransportError::Worker(e.to_string());
        let units = bytes.unwrap_or(SHARE).clamp(1, SHARE).div_ceil(UNIT);
        let units = u32::try_from(units).unwrap_or(self.units).min(self.units);
        // The host's first: who waits for a slow host must not hold what others could use.
        let of_host = Arc::clone(&host.connections).acquire_owned().await.map_err(closed)?;
        let of_bytes = Arc::clone(&self.bytes).acquire_many_owned(units).await.map_err(closed)?;
        let of_all = Arc::clone(&self.connections).acquire_owned().await.map_err(closed)?;
        Ok(Permit([of_host, of_bytes, of_all]))
    }

    /// Waits until so many bytes more may have come.
    pub async fn pace(&self, bytes: usize) {
        if let Some(rate) = &self.rate {
            rate.take(bytes).await;
        }
    }

    /// Takes the next candidate to ask out of `left`: the first whose host is not in doubt, else the first.
    pub fn next<C>(&self, left: &mut Vec<C>, host: impl Fn(&C) -> Option<String>) -> Option<(C, RetryPolicy)> {
        if left.is_empty() {
            return None;
        }
        let known = |candidate: &C| host(candidate).map(|name| self.host(&name));
        let fine = |candidate: &C| known(candidate).is_none_or(|host| !host.is_doubtful());
        let candidate = left.remove(left.iter().position(fine).unwrap_or(0));
        let once = known(&candidate).is_some_and(|host| host.is_down());
        Some((candidate, RetryPolicy { once, others: !left.is_empty() }))
    }
}

/// What a candidate is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetryPolicy {
    /// One try only: its host used up all tries of another transfer of this run and has not answered since.
    pub once: bool,
    /// Others can be asked after it.
    pub others: bool,
}

/// One host, as this run has come to know it.
#[derive(Debug)]
pub(crate) struct Host {
    connections: Arc<Semaphore>,
    down: AtomicBool,
    failures: AtomicU32,
    answers: AtomicU64,
    /// Whether it or another host of the run has answered.
    online: Arc<AtomicBool>,
    worse: Notify,
    /// What its last `Retry-After` said.
    rest: Mutex<Option<Rest>>,
    /// When somebody was reported last that it is waited for, and until when that holds.
    news: Mutex<Option<(Instant, Instant)>>,
}

/// How long a host wants to be left alone.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// Nobody asks before.
    honoured: Instant,
    /// What it asked for, which may be far longer.
    wanted: Instant,
}

impl Host {
    fn new(connections: usize, online: Arc<AtomicBool>) -> Self {
        Self {
            connections: Arc::new(Semaphore::new(connections)),
            down: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            answers: AtomicU64::new(0),
            online,
            worse: Notify::new(),
            rest: Mutex::default(),
            news: Mutex::default(),
        }
    }

    /// Whether all tries of a transfer were used up without an answer to anybody.
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// Whether it is better to go elsewhere, where that can be done.
    pub fn is_doubtful(&self) -> bool {
        self.is_down() || self.failures.load(Ordering::Relaxed) >= FAILURES
    }

    /// How often it gave something.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// It gave something.
    pub fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        self.down.store(false, Ordering::Relaxed);
        self.online.store(true, Ordering::Relaxed);
    }

    /// Whether any host has given something in this run: there is a network.
    pub fn is_online(&self) -> bool {
        self.online.load(Ordering::Relaxed)
    }

    /// No connection was made.
    pub fn failed(&self) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 == FAILURES {
            self.worse.notify_waiters();
        }
    }

    /// All tries of somebody are used up. Whoever waits to try again learns of it.
    pub fn give_up(&self) {
        self.down.store(true, Ordering::Relaxed);
        self.worse.notify_waiters();
    }

    /// Whoever can go elsewhere is to do so; the others keep their tries.
    pub fn doubt(&self) {
        self.failures.fetch_max(FAILURES, Ordering::Relaxed);
        self.worse.notify_waiters();
    }

    /// It wants to be left alone for so long, and is for the longest time that anybody waits.
    pub fn rest(&self, time: Duration, longest: Duration) {
        let now = Instant::now();
        // A date in a thousand years is as good as one in a year.
        let asked = Rest { honoured: now + time.min(longest), wanted: now + time.min(YEAR) };
        let mut rest = lock(&self.rest);
        *rest = Some(rest.map_or(asked, |before| Rest {
            honoured: before.honoured.max(asked.honoured),
            wanted: before.wanted.max(asked.wanted),
        }));
    }

    /// How much longer it wants to be left alone.
    pub fn wants_rest(&self) -> Option<Duration> {
        let wanted = (*lock(&self.rest))?.wanted;
        wanted.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// Waits until it may be asked; false when another is to be asked rather, where there are others.
    pub async fn rested(&self, others: bool) -> bool {
        loop {
            let worse = self.worse.notified();
            tokio::pin!(worse);
            worse.as_mut().enable();
            let until = lock(&self.rest).map(|rest| rest.honoured).filter(|until| *until > Instant::now());
            let Some(until) = until else { return true };
            if others && self.is_doubtful() {
                return false;
            }
            tokio::select! {
                () = worse => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Whether it is to be told that it is waited for: not for each of the many that wait, but when that was not reported for a
    /// while, or when it is to last longer than was reported.
    pub fn is_news(&self, interval: Duration, within: Duration) -> bool {
        let now = Instant::now();
        let until = now + within;
        let mut news = lock(&self.news);
        let known = news.is_some_and(|(reported, holds)| now < reported + interval && until <= holds + interval);
        if !known {
            *news = Some((now, until));
        }
        !known
    }

    /// Waits for a time; false when there is no sense in it any more: the host is down, or in doubt while there are others.
    pub async fn wait(&self, time: Duration, others: bool) -> bool {
        let until = Instant::now() + time;
        loop {
            let worse = self.worse.notified();
            tokio::pin!(worse);
            // Before the look, so that nothing is missed between the two.
            worse.as_mut().enable();
            if self.is_down() || (others && self.is_doubtful()) {
                return false;
            }
            tokio::select! {
                () = worse => {}
                () = tokio::time::sleep_until(until) => return true,
            }
        }
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes a second, over all transfers.
#[derive(Debug)]
struct Rate {
    per_second: u64,
    /// When the bytes that were let through so far are paid for.
    paid: Mutex<Instant>,
}

impl Rate {
    /// What may come at once after a pause.
    const BURST: Duration = Duration::from_millis(100);

    fn new(per_second: u64) -> Self {
        Self { per_second: per_second.max(1), paid: Mutex::new(Instant::now()) }
    }

    async fn take(&self, bytes: usize) {
        let costs = Duration::from_secs_f64(bytes as f64 / self.per_second as f64);
        let until = {
            let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            *paid = (*paid).max(now.checked_sub(Self::BURST).unwrap_or(now)) + costs;
            *paid
        };
        tokio::time::sleep_until(until).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(parallel: usize, per_host: usize, bytes_in_flight: u64) -> Schedule {
        Schedule::new(&HttpOptions { parallel, parallel_per_host: per_host, bytes_in_flight, ..HttpOptions::default() })
    }

    async fn at_once(schedule: &Schedule, host: &str, bytes: u64) -> usize {
        let mut held = Vec::new();
        while let Ok(permit) = tokio::time::timeout(Duration::from_secs(1), schedule.permit(host, Some(bytes))).await {
            held.push(permit);
        }
        held.len()
    }

    #[tokio::test(start_paused = true)]
    async fn many_small_files_go_at_once_and_few_large_ones() {
        let schedule = schedule(32, 16, 64 << 20);
        assert_eq!(at_once(&schedule, "a:1", 1000).await, 16);
        assert_eq!(at_once(&schedule, "a:1", 1 << 30).await, 8);
        let _slow = schedule.permit("a:1", Some(1 << 30)).await;
        assert_eq!(at_once(&schedule, "b:1", 1 << 30).await, 7, "the budget is of all hosts");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_larger_than_the_whole_budget_is_moved_all_the_same() {
        assert_eq!(at_once(&schedule(4, 4, 1), "a:1", 1 << 40).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_come_at_the_rate_over_all_transfers() {
        let rate = Rate::new(1 << 20);
        let begun = Instant::now();
        futures::future::join_all((0..4).map(|_| async {
            for _ in 0..16 {
                rate.take(64 << 10).await;
            }
        }))
        .await;
        let took = begun.elapsed().as_secs_f64();
        assert!((3.8..4.2).contains(&took), "4 MiB at 1 MiB a second took {took} s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_is_down_is_asked_last_and_once_until_it_answers() {
        let schedule = schedule(4, 4, 1 << 20);
        let host = |name: &&str| Some((*name).to_owned());
        let full = |others| RetryPolicy { once: false, others };
        schedule.host("dead:1").give_up();
        let mut left = vec!["dead:1", "good:1"];
        assert_eq!(schedule.next(&mut left, host), Some(("good:1", full(true))));
        assert_eq!(schedule.next(&mut left, host), Some(("dead:1", RetryPolicy { once: true, others: false })));
        assert_eq!(schedule.next(&mut left, host), None);
        schedule.host("dead:1").answered();
        assert_eq!(schedule.next(&mut vec!["dead:1", "good:1"], host), Some(("dead:1", full(true))));
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_fail_at_once_send_others_elsewhere_but_an_only_host_keeps_all_its_tries() {
        let schedule = schedule(4, 4, 1 << 20);
        let host = schedule.host("a:1");
        (0..FAILURES).for_each(|_| host.failed());
        assert!(host.wait(Duration::from_secs(1), false).await, "there is no other");
        assert!(!host.wait(Duration::from_secs(1), true).await);
        let name = |name: &&str| Some((*name).to_owned());
        assert_eq!(schedule.next(&mut vec!["a:1"], name), Some(("a:1", RetryPolicy::default())));
        assert_eq!(schedule.next(&mut vec!["a:1", "b:1"], name).map(|(name, _)| name), Some("b:1"));
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_for_a_host_get_an_error_when_another_gives_it_up() {
        let host = Host::new(4, Arc::default());
        let begun = Instant::now();
        let (waited, ()) = tokio::join!(host.wait(Duration::from_secs(60), false), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            host.give_up();
        });
        assert!(!waited && begun.elapsed() < Duration::from_secs(2));
        assert!(!host.wait(Duration::from_secs(60), false).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_after_of_a_host_holds_for_all_transfers() {
        let host = Host::new(4, Arc::default());
        let longest = Duration::from_secs(60);
        host.rest(Duration::from_secs(3), longest);
        host.rest(Duration::from_secs(1), longest);
        let begun = Instant::now();
        assert!(host.rested(false).await);
        assert!(begun.elapsed() >= Duration::from_secs(3));
        // A day is a minute for those who have nobody else, and no wait at all for the others.
        host.rest(Duration::from_secs(86_400), longest);
        host.doubt();
        assert!(!host.rested(true).await);
        assert!(host.rested(false).await && begun.elapsed() < Duration::from_secs(70));
        assert!(host.wants_rest().is_some_and(|left| left > Duration::from_secs(86_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_waiters_for_a_host_one_reports_unless_the_wait_gets_longer() {
        let host = Host::new(4, Arc::default());
        let (often, second) = (Duration::from_secs(5), Duration::from_secs(1));
        assert!(host.is_news(often, second));
        assert!(!host.is_news(often, 2 * second));
        assert!(host.is_news(often, 60 * second));
        assert!(!host.is_news(often, 60 * second));
        tokio::time::sleep(often).await;
        assert!(host.is_news(often, second));
    }
}
