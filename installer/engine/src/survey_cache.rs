//! One look at every host when an attempt begins, all steps at once: where nothing is to be done, it is all there is to do.
//!
//! What it found is trusted only while the run has changed nothing, on any host, and for some seconds: then the look that a
//! step would have when its turn comes would find the same. From the first change on every step is looked at in its turn.
//! Steps that did not hold have their look, and say why, in their turn too (docs/decisions/0011).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use kubexm_plan::{Plan, Probe, Step, StepId, Survey};
use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::files::write_whole;
use crate::link::{LinkError, SlotValues, answers};
use crate::run_context::RunContext;
use crate::slots::{Given, Slots};

/// How long what was seen is trusted.
const GOOD_FOR: Duration = Duration::from_secs(10);
/// How long the look at a host may take: each step is looked at alone afterwards.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a check from inside a pod is remembered.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// What was seen of the hosts, and what the run has changed since.
pub(crate) struct SurveyCache {
    holding: BTreeSet<StepId>,
    at: Instant,
    /// Counts the beginnings and ends of changes.
    changes: AtomicUsize,
    /// Changes when the first check of a pod's network began.
    before_check: AtomicUsize,
    /// The last check from inside a pod, after which nothing has happened to any host.
    remembered: bool,
}

/// The last time that the networks of pods were seen to work from inside.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Checked {
    /// Digest of the probes and of the hosts they ran on.
    probes: Digest,
    /// What each host had been through.
    past: BTreeMap<String, String>,
    /// Milliseconds since 1970.
    at_ms: u64,
}

impl SurveyCache {
    pub(crate) fn nothing() -> Self {
        Self {
            holding: BTreeSet::new(),
            at: Instant::now(),
            changes: AtomicUsize::new(0),
            before_check: AtomicUsize::new(usize::MAX),
            remembered: false,
        }
    }

    /// Looks at all hosts. A host that does not answer has nothing that holds: its steps will tell. One that answers for
    /// other hosts is an error.
    pub(crate) async fn look(attempt: &RunContext<'_>, slots: &Slots<'_>) -> Result<Self, LinkError> {
        let at = Instant::now();
        let surveys = surveys(attempt, Some(slots)).await?;
        let mut holding: BTreeSet<StepId> = surveys.values().flat_map(|survey| survey.holding.clone()).collect();
        // Where anything will be done, pods are asked from: the check need not come after it.
        let all_hold = attempt.plan.steps.iter().all(|step| holding.contains(&step.id));
        let remembered = all_hold && surveys.len() == attempt.links.len() && remembers(attempt, &surveys);
        if !remembered {
            // They were asked from the host only.
            for step in network_checks(attempt.plan) {
                holding.remove(&step.id);
            }
        }
        Ok(Self { holding, at, remembered, ..Self::nothing() })
    }

    /// Whether a step was seen to hold, and nothing was changed since.
    pub(crate) fn holds(&self, step: &Step) -> bool {
        self.changes.load(Ordering::SeqCst) == 0 && self.at.elapsed() < GOOD_FOR && self.holding.contains(&step.id)
    }

    /// The run is about to change something; it counts once more when the guard is dropped, since what was looked at in
    /// between may have been seen before the change or after it.
    pub(crate) fn changing(&self) -> Changing<'_> {
        self.change();
        Changing(self)
    }

    fn change(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// A step begins that checks the network of pods from inside.
    pub(crate) fn begin(&self, step: &Step) {
        if is_network_check(step) {
            self.before_check.fetch_min(self.changes.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    /// Whether the network was checked after the last change.
    fn checked_last(&self) -> bool {
        self.before_check.load(Ordering::SeqCst) == self.changes.load(Ordering::SeqCst)
    }

    /// After a run all of whose steps hold: what its check of the network was worth is kept for the next one, when nothing
    /// was changed after it. What cannot be kept costs the next run a check.
    pub(crate) async fn remember(&self, attempt: &RunContext<'_>) {
        let Some(path) = attempt.options.remembered.as_deref().filter(|_| !self.remembered) else { return };
        if !self.checked_last() {
            return;
        }
        let Ok(surveys) = surveys(attempt, None).await else { return };
        if surveys.len() < attempt.links.len() {
            return;
        }
        let Some(probes) = probes(attempt.plan) else { return };
        let checked = Checked { probes, past: past(&surveys), at_ms: now_ms() };
        let written = serde_json::to_vec(&checked).map(|bytes| write_whole(path, &bytes, 0o600));
        if let Ok(Err(error)) = written {
            tracing::debug!(%error, "the check of the network is not remembered");
        }
    }
}

/// While it lives, something is being changed.
pub(crate) struct Changing<'s>(&'s SurveyCache);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.change();
    }
}

/// What every host answers that answers; without slots no step is asked about, and only what it has been through.
async fn surveys(attempt: &RunContext<'_>, slots: Option<&Slots<'_>>) -> Result<BTreeMap<String, Survey>, LinkError> {
    let looks = attempt.links.iter().map(|(host, link)| async move {
        let mut steps = Vec::new();
        let mut given = Given::default();
        if let Some(slots) = slots {
            for step in attempt.plan.steps.iter().filter(|step| step.host == *host) {
                // A value that cannot be made is reported when its step runs.
                if let Ok(own) = slots.kept(step).await {
                    given.values.extend(own.values.iter().map(|(name, value)| (name.clone(), value.clone())));
                    steps.push(step);
                }
            }
        }
        let values: &SlotValues = &given.values;
        let survey = tokio::time::timeout(LIMIT, link.survey(attempt.plan, &steps, values)).await;
        match survey {
            Ok(Ok(survey)) => Ok(Some((host.clone(), answers::surveyed(host, &steps, survey)?))),
            Ok(Err(error @ LinkError::Untrusted { .. })) => Err(error),
            Ok(Err(_)) | Err(_) => Ok(None),
        }
    });
    join_all(looks).await.into_iter().filter_map(Result::transpose).collect()
}

/// Whether the network was checked from inside a pod, and nothing has happened to any host since.
fn remembers(attempt: &RunContext<'_>, surveys: &BTreeMap<String, Survey>) -> bool {
    let read = |path: &Path| serde_json::from_slice::<Checked>(&std::fs::read(path).ok()?).ok();
    let checked = attempt.options.remembered.as_deref().and_then(read);
    checked.is_some_and(|checked| checked.is_good(probes(attempt.plan), &past(surveys), now_ms()))
}

impl Checked {
    /// Of the same questions, to the same hosts, to which nothing has happened, within a day. One from the future is of a
    /// clock that was set back.
    fn is_good(&self, probes: Option<Digest>, past: &BTreeMap<String, String>, now_ms: u64) -> bool {
        let age = now_ms.checked_sub(self.at_ms).map(Duration::from_millis);
        age.is_some_and(|age| age < REMEMBERED) && Some(self.probes) == probes && self.past == *past
    }
}

fn past(surveys: &BTreeMap<String, Survey>) -> BTreeMap<String, String> {
    surveys.iter().map(|(host, survey)| (host.clone(), survey.past.clone())).collect()
}

fn is_network_check(step: &Step) -> bool {
    step.probe.as_ref().is_some_and(|timed| matches!(timed.probe, Probe::PodNetwork { .. }))
}

fn network_checks(plan: &Plan) -> impl Iterator<Item = &Step> {
    plan.steps.iter().filter(|step| is_network_check(step))
}

/// What is asked, and where; none when a plan asks nothing.
fn probes(plan: &Plan) -> Option<Digest> {
    let asked: Vec<_> = network_checks(plan).map(|step| (&step.host, &step.probe)).collect();
    (!asked.is_empty()).then(|| serde_json::to_vec(&asked).ok().map(Digest::of)).flatten()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use kubexm_plan::Undo;

    use super::*;

    fn check() -> Step {
        let text = |text: &str| text.to_owned();
        let (name, dns, service) = (text("kubernetes.default"), text("10.96.0.10"), text("10.96.0.1:443"));
        let probe = Probe::PodNetwork { node: text("a"), image: text("pause"), name, dns, service };
        Step::on("a", "check.network", "Ask").probe(probe, 1).undo(Undo::Nothing).build()
    }

    #[test]
    fn a_check_of_the_network_is_remembered_for_a_day_and_only_while_nothing_happens_to_any_host() {
        let past = |a: &str, b: &str| BTreeMap::from([("a", a), ("b", b)].map(|(h, p)| (h.to_owned(), p.to_owned())));
        let (asked, now) = (Digest::of("asked"), now_ms());
        let checked = Checked { probes: asked, past: past("1", "2"), at_ms: now };
        assert!(checked.is_good(Some(asked), &past("1", "2"), now + 1000));
        assert!(!checked.is_good(Some(asked), &past("1", "3"), now), "a host was changed, or booted");
        let mut more = past("1", "2");
        more.insert("c".to_owned(), "1".to_owned());
        assert!(!checked.is_good(Some(asked), &more, now), "a host came");
        assert!(!checked.is_good(Some(Digest::of("more")), &past("1", "2"), now), "something else is asked");
        assert!(!checked.is_good(Some(asked), &past("1", "2"), now + 24 * 60 * 60 * 1000));
        assert!(!checked.is_good(Some(asked), &past("1", "2"), now - 1), "the clock was set back");
    }

    #[test]
    fn a_check_that_a_change_came_after_or_that_ran_beside_one_is_worth_nothing() {
        let seen = SurveyCache::nothing();
        assert!(!seen.checked_last(), "there was none");
        seen.change();
        seen.begin(&check());
        assert!(seen.checked_last());
        seen.change();
        assert!(!seen.checked_last(), "what was under way ended after it had begun");
        seen.begin(&check());
        assert!(!seen.checked_last(), "the first of the checks was too early");
    }

    #[test]
    fn a_check_that_ran_while_a_change_was_given_up_is_worth_nothing() {
        let seen = SurveyCache::nothing();
        let changing = seen.changing();
        seen.begin(&check());
        drop(changing);
        assert!(!seen.checked_last());
    }

    #[test]
    fn what_was_seen_holds_until_the_first_change() {
        let step = check();
        let seen = SurveyCache { holding: BTreeSet::from([step.id.clone()]), ..SurveyCache::nothing() };
        assert!(seen.holds(&step));
        seen.change();
        assert!(!seen.holds(&step));
    }
}
