//! What is reported of transfers to a server and from it.

use std::time::Duration;

use kubexm_engine::EventSink;
use kubexm_engine::events::event;
use kubexm_s3::{Moved, Watch};
use kubexm_spec::event::{EventKind, Next};
use kubexm_spec::one_line;
use tokio_util::sync::CancellationToken;

/// To the events of a session, until it is cancelled.
#[derive(Clone)]
pub(super) struct Transfers<'s> {
    pub events: &'s dyn EventSink,
    pub cancel: &'s CancellationToken,
}

impl Watch for Transfers<'_> {
    fn moved(&self, way: Moved, done: u64, total: u64) {
        let what = match way {
            Moved::Up => "upload",
            Moved::Down => "download",
        };
        let (what, unit) = (what.to_owned(), "bytes".to_owned());
        self.events.emit(event(EventKind::Progress { what, done, total: Some(total), unit }));
    }

    fn waiting(&self, at: &str, reason: &str, (attempt, attempts): (u32, u32), pause: Duration) {
        self.events.emit(event(EventKind::Waiting {
            origin: at.to_owned(),
            reason: one_line(reason),
            attempt: Some(attempt.into()),
            attempts: Some(attempts.into()),
            retry_after_s: None,
            next: Next::Try,
            within_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
        }));
    }

    fn is_stopped(&self) -> bool {
        self.cancel.is_cancelled()
    }
}
