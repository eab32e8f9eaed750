//! Hosts that are out of reach: reporting them during a run, and telling a step that failed by itself from one whose
//! host is gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kubexm_plan::Step;
use kubexm_spec::event::EventKind;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::EngineError;
use crate::link::{Link, LinkError};
use crate::lost_host::LostHost;
use crate::run_context::{Links, RunContext};

/// How often the links are looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// Looks after which a lost connection is tried again: no request may come that would do so.
const LOOKS: u32 = 10;
/// How long such a try may take.
const TRY: Duration = Duration::from_secs(5);

/// Reports steps that take a while, and hosts when their connection is lost and when they answer again.
pub(crate) struct Watch {
    ticks: Interval,
    looks: u32,
    /// Hosts that were reported.
    lost: BTreeSet<String>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self::without(BTreeSet::new())
    }

    /// For a rollback: hosts that are out of reach already were reported by the run.
    pub(crate) fn after_a_run(links: &Links) -> Self {
        Self::without(
            links.iter().filter(|(_, link)| link.lost_for().is_some()).map(|(host, _)| host.clone()).collect(),
        )
    }

    fn without(lost: BTreeSet<String>) -> Self {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks, looks: 0, lost }
    }

    /// Reports changes at every tick; never ends. Dropping it between two ticks loses nothing.
    pub(crate) async fn report(&mut self, attempt: &RunContext<'_>) -> std::convert::Infallible {
        loop {
            self.ticks.tick().await;
            attempt.report_waits();
            self.looks = (self.looks + 1) % LOOKS;
            if self.looks == 0 {
                let gone = self.lost.iter().filter_map(|host| attempt.links.get(host));
                join_all(gone.map(|link| link.answers(TRY))).await;
            }
            for (host, link) in attempt.links {
                let text = match (link.lost_for(), self.lost.contains(host)) {
                    (Some(gone), false) => {
                        self.lost.insert(host.clone());
                        format!("{host} has been out of reach for {} s", gone.as_secs())
                    }
                    (None, true) => {
                        self.lost.remove(host);
                        format!("{host} answers again")
                    }
                    _ => continue,
                };
                attempt.emit(EventKind::Warning { text });
            }
        }
    }
}

/// The hosts that are out of reach now; if all answer again, the one whose step failed.
pub(crate) fn lost_hosts(links: &Links, failed: &Step) -> Vec<LostHost> {
    let lost = |(host, link): (&String, &Arc<dyn Link>)| {
        link.lost_for().map(|gone| LostHost { host: host.clone(), gone: Some(gone) })
    };
    let lost: Vec<LostHost> = links.iter().filter_map(lost).collect();
    match lost.is_empty() {
        true => vec![LostHost { host: failed.host.clone(), gone: None }],
        false => lost,
    }
}

/// What made an attempt at a step fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Something on its host.
    Host,
    /// Its time was over, or what it waits for did not happen: another host may be the cause.
    Waited,
    /// A host is out of reach, which says nothing about what was done on the others.
    Unreachable,
}

/// A failed attempt at a step.
pub(crate) struct Failure {
    pub(crate) text: String,
    /// Whether a retry may help.
    pub(crate) may_pass: bool,
    pub(crate) cause: Cause,
}

impl Failure {
    /// Of the host where the step runs.
    pub(crate) fn of_host(text: String) -> Self {
        Self { text, may_pass: true, cause: Cause::Host }
    }

    /// Of waiting.
    pub(crate) fn waited(text: String) -> Self {
        Self { text, may_pass: true, cause: Cause::Waited }
    }

    /// Names the host that is out of reach, if that is the cause: the host of the step, or the one that it waited for.
    pub(crate) async fn explained(self, step: &Step, links: &Links) -> Self {
        let suspects: &[&str] = match self.cause {
            Cause::Unreachable => &[],
            Cause::Host => &[&step.host],
            Cause::Waited => &[&step.host, step.domain()],
        };
        let mut found = None;
        for host in suspects {
            let Some((link, gone)) = links.get(*host).and_then(|link| Some((link, link.lost_for()?))) else { continue };
            // The connection may have been lost for a moment, and nobody has asked that host since.
            if !link.answers(TRY).await {
                found = Some((host, gone));
                break;
            }
        }
        let Some((host, gone)) = found else { return self };
        let text = format!(
            "{host} has been out of reach for {} s: the host, its network or its sshd is down; what the step did there is \
             not known before it answers ({})",
            gone.as_secs(),
            self.text
        );
        Self { text, may_pass: self.may_pass, cause: Cause::Unreachable }
    }
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        let cause = if matches!(error, LinkError::Unreachable { .. }) { Cause::Unreachable } else { Cause::Host };
        Self { text: error.to_string(), may_pass: error.may_pass(), cause }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Link(error) => error.into(),
            other => Self { text: other.to_string(), may_pass: false, cause: Cause::Host },
        }
    }
}

#[cfg(test)]
mod tests {
    use kubexm_plan::Undo;

    use super::*;
    use crate::link::LinkLost;

    /// A step on `cp` that waits for `w1`, and a link to `w1` only, which is lost.
    fn site() -> (Step, Links) {
        let gone =
            LinkError::Unreachable { host: "w1".to_owned(), address: "w1:22".to_owned(), reason: "x".to_owned() };
        let link = LinkLost::of(&gone).map(|link| ("w1".to_owned(), Arc::new(link) as Arc<dyn Link>));
        (Step::on("cp", "join.ready-w1", "Wait").domain("w1").undo(Undo::Nothing).build(), link.into_iter().collect())
    }

    #[tokio::test]
    async fn a_step_that_waited_for_a_lost_host_names_it_and_what_it_saw() {
        let (step, links) = site();
        let failure = Failure::waited("not reached after 60 s: NotReady".to_owned()).explained(&step, &links).await;
        assert_eq!(failure.cause, Cause::Unreachable);
        assert!(failure.text.starts_with("w1 has been out of reach for 0 s"), "{}", failure.text);
        assert!(failure.text.ends_with("(not reached after 60 s: NotReady)"), "{}", failure.text);
    }

    #[tokio::test]
    async fn what_fails_on_a_host_that_answers_is_not_blamed_on_another() {
        let (step, links) = site();
        let failure = Failure::of_host("the disk is full".to_owned()).explained(&step, &links).await;
        assert_eq!((failure.cause, failure.text.as_str()), (Cause::Host, "the disk is full"));
    }
}
