//! Who is reported when a transfer waits for an origin: nobody is to look at a screen that says nothing for a minute.

use std::sync::Arc;
use std::time::Duration;

use kubexm_spec::event::{EventKind, Next};

/// Takes [`EventKind::Waiting`] as it happens; nobody does by default. Called from any thread; it must be quick.
#[derive(Clone, Default)]
pub struct Watch(Option<Arc<dyn Fn(EventKind) + Send + Sync>>);

impl Watch {
    /// Tells this one.
    pub fn new(reported: impl Fn(EventKind) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(reported)))
    }

    pub(crate) fn tell(&self, origin: String, seen: Seen, next: Next, within: Duration) {
        let Some(reported) = &self.0 else { return };
        let Seen { reason, tries, retry_after } = seen;
        reported(EventKind::Waiting {
            origin,
            reason,
            attempt: tries.map(|(attempt, _)| attempt as u64),
            attempts: tries.map(|(_, attempts)| attempts as u64),
            retry_after_s: retry_after.map(|after| after.as_secs()),
            next,
            within_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
        });
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Watch(somebody)" } else { "Watch(nobody)" })
    }
}

/// What was seen of an origin that is waited for.
pub(crate) struct Seen {
    pub reason: String,
    /// Which try, of how many in all.
    pub tries: Option<(usize, usize)>,
    /// What the origin asked for.
    pub retry_after: Option<Duration>,
}

/// A time for people: whole seconds, or one decimal.
pub(crate) fn seconds(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}
