//! The tries at one address: how many, how long between them, who is reported, and when another place is the better one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backon::BackoffBuilder;
use kubexm_spec::event::Next;
use tokio::time::Instant;

use crate::attempt::{Attempt, Why};
use crate::schedule::{Host, RetryPolicy};
use crate::watch::{Seen, Watch};
use crate::{HttpOptions, TransportError};

/// Tries of who asks for more time than is given: one, and one after the longest wait.
const TOLD_TRIES: usize = 2;

/// The waits between tries. [`Retries::progress`] starts them anew.
pub(crate) struct Retries {
    builder: backon::ExponentialBuilder,
    waits: backon::ExponentialBackoff,
    limits: Limits,
    watch: Watch,
    /// Whom it is about, and how often that had answered when it began.
    host: Option<(u64, Arc<Host>)>,
    retry_policy: RetryPolicy,
    /// Tries that failed since something came last.
    failed: Arc<AtomicUsize>,
    /// Of those, without a word.
    silent: usize,
    /// Of those, with a longer `Retry-After` than is honoured.
    reported: usize,
    /// Something came in the last try.
    came: bool,
    since: Instant,
}

struct Limits {
    tries: usize,
    silent_tries: usize,
    longest: Duration,
    notice_after: Duration,
}

impl Retries {
    pub fn new(options: &HttpOptions) -> Self {
        let builder = backon::ExponentialBuilder::new()
            .with_jitter()
            .with_min_delay(options.backoff_min)
            .with_max_delay(options.backoff_max)
            .with_max_times(options.retries);
        Self {
            builder,
            waits: builder.build(),
            limits: Limits {
                tries: 1 + options.retries,
                silent_tries: options.silent_tries.max(1),
                longest: options.backoff_max,
                notice_after: options.notice_after,
            },
            watch: options.watch.clone(),
            host: None,
            retry_policy: RetryPolicy::default(),
            failed: Arc::default(),
            silent: 0,
            reported: 0,
            came: false,
            since: Instant::now(),
        }
    }

    /// About a host that others ask too.
    pub fn at(self, host: Option<Arc<Host>>, retry_policy: RetryPolicy, failed: Arc<AtomicUsize>) -> Self {
        Self { host: host.map(|host| (host.answers(), host)), retry_policy, failed, ..self }
    }

    /// Bytes came: the origin is alive.
    pub fn progress(&mut self) {
        self.waits = self.builder.build();
        self.retry_policy.once = false;
        self.failed.store(0, Ordering::Relaxed);
        (self.silent, self.reported, self.came, self.since) = (0, 0, true, Instant::now());
        if let Some((before, host)) = &mut self.host {
            host.answered();
            *before = host.answers();
        }
    }

    /// Waits before the next try, or gives the error back when there is none.
    pub async fn wait(&mut self, attempt: Attempt) -> Result<(), TransportError> {
        let (error, why) = match attempt {
            Attempt::Fatal(error) => return Err(error),
            Attempt::Again { error, why } => (error, why),
        };
        let failed = 1 + self.failed.fetch_add(1, Ordering::Relaxed);
        let came = std::mem::take(&mut self.came);
        let mut left = self.limits.tries.saturating_sub(failed);
        // Whoever has others to ask does not sit out a silence or a long rest.
        let mut elsewhere = false;
        match why {
            Why::Silent => {
                self.silent += 1;
                left = left.min(self.limits.silent_tries.saturating_sub(self.silent));
                elsewhere = self.retry_policy.others && !came;
            }
            Why::Reported(after) if after > self.limits.longest => {
                self.reported += 1;
                left = left.min(TOLD_TRIES.saturating_sub(self.reported));
                elsewhere = self.retry_policy.others;
            }
            Why::Reported(_) | Why::Failed => {}
        }
        let next = self.waits.next().filter(|_| left > 0 && !elsewhere && !self.retry_policy.once);
        let retry_after = if let Why::Reported(after) = why { Some(after) } else { None };
        let Some(wait) = next else {
            self.give_up(elsewhere);
            if self.retry_policy.others && (elsewhere || self.since.elapsed() >= self.limits.notice_after) {
                self.tell(&error, (failed, failed), retry_after, Next::Elsewhere, Duration::ZERO);
            }
            return Err(error);
        };
        let wait = wait.max(retry_after.unwrap_or_default().min(self.limits.longest));
        tracing::debug!(%error, wait_ms = wait.as_millis(), "trying again");
        if self.since.elapsed() + wait >= self.limits.notice_after {
            self.tell(&error, (failed, failed + left), retry_after, Next::Try, wait);
        }
        match &self.host {
            Some((_, host)) if !host.wait(wait, self.retry_policy.others).await => Err(error),
            Some(_) => Ok(()),
            None => {
                tokio::time::sleep(wait).await;
                Ok(())
            }
        }
    }

    /// What it means for the others that ask this host.
    fn give_up(&self, elsewhere: bool) {
        // Where others were served meanwhile, it is about this file and not about the host.
        let Some((_, host)) = self.host.as_ref().filter(|(before, host)| host.answers() == *before) else { return };
        if elsewhere { host.doubt() } else { host.give_up() }
    }

    fn tell(
        &self,
        error: &TransportError,
        tries: (usize, usize),
        retry_after: Option<Duration>,
        next: Next,
        within: Duration,
    ) {
        let Some((origin, reason)) = error.seen() else { return };
        if self.host.as_ref().is_none_or(|(_, host)| host.is_news(self.limits.notice_after, within)) {
            let seen = Seen { reason, tries: Some(tries), retry_after };
            self.watch.tell(origin.to_owned(), seen, next, within);
        }
    }
}

/// Tries until it succeeds, fails for good, or the tries are used up.
pub(crate) async fn retried<T, F, Fut>(mut retries: Retries, mut once: F) -> Result<T, TransportError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, Attempt>>,
{
    loop {
        match once().await {
            Ok(value) => return Ok(value),
            Err(attempt) => retries.wait(attempt).await?,
        }
    }
}
