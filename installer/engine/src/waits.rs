//! Reports waits: nothing that takes longer than [`SILENCE`] is silent, and nothing is repeated every few seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kubexm_plan::{Step, StepId};
use kubexm_spec::event::EventKind;
use kubexm_spec::one_line;
use tokio::time::Instant;

use crate::events::{EventSink, event};

/// After this time a wait is reported; then whenever it has lasted twice as long as at its last report.
pub const SILENCE: Duration = Duration::from_secs(5);

/// Does the work of several hosts at the same time; the results are in the order in which it ends. While it lasts, the
/// hosts that have not answered are reported, with what is asked of them.
pub async fn of_hosts<T>(
    events: &dyn EventSink,
    what: &str,
    work: impl IntoIterator<Item = (String, impl Future<Output = T>)>,
) -> Vec<(String, T)> {
    let (began, mut next) = (Instant::now(), SILENCE);
    let mut open = BTreeSet::new();
    let mut running: FuturesUnordered<_> = work
        .into_iter()
        .map(|(host, work)| {
            open.insert(host.clone());
            async move { (host, work.await) }
        })
        .collect();
    let mut ended = Vec::new();
    loop {
        let wait = next.saturating_sub(began.elapsed());
        tokio::select! {
            biased;
            done = running.next() => match done {
                Some((host, result)) => {
                    open.remove(&host);
                    ended.push((host, result));
                }
                None => return ended,
            },
            () = tokio::time::sleep(wait) => {
                let hosts = open.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                let text = format!("waiting for {hosts}: {what} ({} s)", began.elapsed().as_secs());
                events.emit(event(EventKind::Note { text }));
                next = began.elapsed() * 2;
            }
        }
    }
}

/// The steps that are being executed.
#[derive(Debug, Default)]
pub(crate) struct StepWaits(BTreeMap<StepId, StepWait>);

#[derive(Debug)]
struct StepWait {
    host: String,
    title: String,
    began: Instant,
    limit_s: u64,
    seen: Option<String>,
    /// When it was reported, and with what.
    reported: Option<(Duration, Option<String>)>,
}

impl StepWaits {
    pub(crate) fn begin(&mut self, step: &Step) {
        let wait = StepWait {
            host: step.host.clone(),
            title: step.title.clone(),
            began: Instant::now(),
            limit_s: step.timeout_s,
            seen: None,
            reported: None,
        };
        self.0.insert(step.id.clone(), wait);
    }

    pub(crate) fn end(&mut self, step: &StepId) {
        self.0.remove(step);
    }

    /// What a step that waits has seen last, in the words of its host.
    pub(crate) fn saw(&mut self, step: &StepId, seen: &str) {
        if let Some(wait) = self.0.get_mut(step) {
            wait.seen = Some(one_line(seen));
        }
    }

    /// The reports that are due.
    pub(crate) fn due(&mut self) -> Vec<EventKind> {
        self.0.iter_mut().filter_map(|(step, wait)| wait.due(step, wait.began.elapsed())).collect()
    }
}

impl StepWait {
    fn due(&mut self, step: &StepId, waited: Duration) -> Option<EventKind> {
        let due = match &self.reported {
            None => waited >= SILENCE,
            Some((at, seen)) => waited >= *at * 2 || (*seen != self.seen && waited >= *at + SILENCE),
        };
        if !due {
            return None;
        }
        self.reported = Some((waited, self.seen.clone()));
        Some(EventKind::StepWaiting {
            step: step.to_string(),
            host: self.host.clone(),
            title: self.title.clone(),
            seen: self.seen.clone(),
            waited_s: waited.as_secs(),
            limit_s: self.limit_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use kubexm_plan::Undo;

    use super::*;
    use crate::events::Recorder;

    #[test]
    fn a_step_is_reported_after_five_seconds_and_then_ever_more_rarely_unless_it_sees_something_else() {
        let step = Step::on("n1", "join.ready", "Wait for the node").undo(Undo::Nothing).build();
        let mut waits = StepWaits::default();
        waits.begin(&step);
        waits.saw(&step.id, "NotReady");
        let mut reported = Vec::new();
        for second in 0..60 {
            if second == 33 {
                waits.saw(&step.id, "no CNI");
            }
            let wait = waits.0.get_mut(&step.id).expect("it waits");
            if let Some(EventKind::StepWaiting { host, seen, waited_s, .. }) =
                wait.due(&step.id, Duration::from_secs(second))
            {
                reported.push((waited_s, host, seen.unwrap_or_default()));
            }
        }
        let all = [(5, "NotReady"), (10, "NotReady"), (20, "NotReady"), (33, "no CNI")];
        assert_eq!(reported, all.map(|(at, seen)| (at, "n1".to_owned(), seen.to_owned())));
        waits.end(&step.id);
        assert_eq!(waits.due(), []);
    }

    #[test]
    fn what_a_host_says_of_a_wait_begins_no_line_of_its_own() {
        let step = Step::on("n1", "join.ready", "Wait for the node").undo(Undo::Nothing).build();
        let mut waits = StepWaits::default();
        waits.begin(&step);
        waits.saw(&step.id, "NotReady\nto resume: rm");
        let wait = waits.0.get_mut(&step.id).expect("it waits");
        let reported = wait.due(&step.id, SILENCE);
        let Some(EventKind::StepWaiting { seen, .. }) = &reported else { unreachable!("{reported:?}") };
        assert_eq!(seen.as_deref(), Some("NotReady to resume: rm"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_hosts_that_have_not_answered_are_named_ever_more_rarely() {
        let events = Recorder::default();
        let work = [("a", 1_u64), ("b", 7), ("c", 23)]
            .map(|(host, seconds)| (host.to_owned(), tokio::time::sleep(Duration::from_secs(seconds))));
        let ended = of_hosts(&events, "its facts", work).await;
        assert_eq!(ended.iter().map(|(host, ())| host.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        let notes: Vec<String> = events
            .events()
            .into_iter()
            .filter_map(|event| if let EventKind::Note { text } = event.kind { Some(text) } else { None })
            .collect();
        let wanted = ["b, c: its facts (5 s)", "c: its facts (10 s)", "c: its facts (20 s)"];
        assert_eq!(notes, wanted.map(|text| format!("waiting for {text}")));
    }
}
