//! One observation of every host at the start of an attempt, for all steps at once: if nothing has to be done, it is
//! all that happens.
//!
//! Its result is trusted only for some seconds and only while the run has changed nothing on any host: until then,
//! observing a step in its turn would give the same. After the first change every step is observed in its turn. Steps
//! that were not satisfied are always observed again in their turn, which also reports the reason
//! (docs/decisions/0011).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kubexm_plan::cluster_facts::applied;
use kubexm_plan::{CONTROLLER, Op, Plan, Probe, Step, StepId, Survey};
use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::files::write_whole;
use crate::link::{LinkError, SlotValues, answers};
use crate::one_holder;
use crate::run_context::RunContext;
use crate::slots::{Given, Slots};
use crate::waits;

/// How long the result is trusted.
const GOOD_FOR: Duration = Duration::from_secs(10);
/// Time limit for each host; without a result, each step is observed in its turn.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a check from inside a pod is remembered.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// The result of observing the hosts, and the changes since.
pub(crate) struct SurveyCache {
    holding: BTreeSet<StepId>,
    at: Instant,
    /// Number of starts and ends of changes.
    changes: AtomicUsize,
    /// The same of those that may have an effect on a pod's network.
    network_changes: AtomicUsize,
    /// Value of `network_changes` when the first check of a pod's network started.
    before_check: AtomicUsize,
    /// Whether the last check from inside a pod is remembered and no host has changed since.
    remembered: bool,
}

/// The last successful check of the pod networks from inside pods.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Checked {
    /// Digest of the probes and of their hosts.
    probes: Digest,
    /// [`Survey::past`] of each host.
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
            network_changes: AtomicUsize::new(0),
            before_check: AtomicUsize::new(usize::MAX),
            remembered: false,
        }
    }

    /// Observes all hosts. On a host that does not answer no step counts as satisfied; its steps report the error. A
    /// host that answers for other hosts is an error.
    pub(crate) async fn look(attempt: &RunContext<'_>, slots: &Slots<'_>) -> Result<Self, LinkError> {
        let at = Instant::now();
        let surveys = surveys(attempt, Some(slots)).await?;
        let mut holding: BTreeSet<StepId> = surveys.values().flat_map(|survey| survey.holding.clone()).collect();
        ask_several_hosts(attempt, &mut holding).await;
        // If anything has to be done, the pod networks are checked from inside pods after it.
        let all_hold = attempt.plan.steps.iter().all(|step| holding.contains(&step.id));
        let remembered = all_hold && surveys.len() == attempt.links.len() && remembers(attempt, &surveys);
        if !remembered {
            // They were only checked from the host.
            for step in network_checks(attempt.plan) {
                holding.remove(&step.id);
            }
        }
        Ok(Self { holding, at, remembered, ..Self::nothing() })
    }

    /// Whether a step was observed as satisfied, and nothing was changed since.
    pub(crate) fn holds(&self, step: &Step) -> bool {
        self.changes.load(Ordering::SeqCst) == 0 && self.at.elapsed() < GOOD_FOR && self.holding.contains(&step.id)
    }

    /// The run is about to do a step. It is counted again when the guard is dropped, since an observation in
    /// between may be from before or after the change.
    pub(crate) fn changing(&self, step: &Step) -> Changing<'_> {
        self.begin_change(only_records(step))
    }

    /// The same of a host that is rolled back.
    pub(crate) fn changing_host(&self) -> Changing<'_> {
        self.begin_change(false)
    }

    fn begin_change(&self, only_records: bool) -> Changing<'_> {
        self.change(only_records);
        Changing { cache: self, only_records }
    }

    fn change(&self, only_records: bool) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        if !only_records {
            self.network_changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A step starts that checks the pod network from inside.
    pub(crate) fn begin(&self, step: &Step) {
        if is_network_check(step) {
            self.before_check.fetch_min(self.network_changes.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    /// Whether the network was checked after the last change that may have an effect on it.
    fn checked_last(&self) -> bool {
        self.before_check.load(Ordering::SeqCst) == self.network_changes.load(Ordering::SeqCst)
    }

    /// After a successful run: stores its check of the network for the next run, if nothing was changed after it. If
    /// storing fails, the next run only has to repeat the check.
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

/// While it exists, something is being changed.
pub(crate) struct Changing<'s> {
    cache: &'s SurveyCache,
    only_records: bool,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.cache.change(self.only_records);
    }
}

/// Whether a step only writes down what a run has done, on hosts or in the cluster: that is its end, after the checks.
fn only_records(step: &Step) -> bool {
    let records = |op: &Op| match op {
        Op::Stamp(_) => true,
        Op::KubeObject(object) => [applied::CONFIG_MAP, applied::UPGRADED].contains(&object.name.as_str()),
        _ => false,
    };
    !step.ops.is_empty() && step.ops.iter().all(records)
}

/// What no host can answer alone is asked when everything else holds, as each host asks what it can answer.
async fn ask_several_hosts(attempt: &RunContext<'_>, holding: &mut BTreeSet<StepId>) {
    let asks_several = |step: &&Step| step.probe.as_ref().is_some_and(|timed| !timed.probe.hosts().is_empty());
    if attempt.plan.steps.iter().any(|step| !asks_several(&step) && !holding.contains(&step.id)) {
        return;
    }
    for step in attempt.plan.steps.iter().filter(asks_several).filter(|step| step.ops.is_empty()) {
        let (Some(timed), Ok(link)) = (&step.probe, attempt.link(step)) else { continue };
        if one_holder::ask(&timed.probe, link, attempt.links).await.is_ok_and(|answer| answer.holds) {
            holding.insert(step.id.clone());
        }
    }
}

/// The answers of all hosts that answer; without slots no step is observed, and only [`Survey::past`] is returned.
async fn surveys(attempt: &RunContext<'_>, slots: Option<&Slots<'_>>) -> Result<BTreeMap<String, Survey>, LinkError> {
    let looks = attempt.links.iter().map(|(host, link)| {
        let look = async move {
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
        };
        (host.clone(), look)
    });
    let ended = waits::of_hosts(attempt.events, "a comparison with the plan", looks).await;
    ended.into_iter().filter_map(|(_, looked)| looked.transpose()).collect()
}

/// Whether the network was checked from inside a pod, and no host has changed since.
fn remembers(attempt: &RunContext<'_>, surveys: &BTreeMap<String, Survey>) -> bool {
    let read = |path: &Path| serde_json::from_slice::<Checked>(&std::fs::read(path).ok()?).ok();
    let checked = attempt.options.remembered.as_deref().and_then(read);
    checked.is_some_and(|checked| checked.is_good(probes(attempt.plan), &past(surveys), now_ms()))
}

impl Checked {
    /// Whether it is for the same probes on the same hosts, which have not changed, and not older than a day. One from
    /// the future is ignored: the clock was set back.
    fn is_good(&self, probes: Option<Digest>, past: &BTreeMap<String, String>, now_ms: u64) -> bool {
        let age = now_ms.checked_sub(self.at_ms).map(Duration::from_millis);
        age.is_some_and(|age| age < REMEMBERED) && Some(self.probes) == probes && self.past == *past
    }
}

/// Of hosts: the controller, which only some pipelines have a part on, has no pod.
fn past(surveys: &BTreeMap<String, Survey>) -> BTreeMap<String, String> {
    let hosts = surveys.iter().filter(|(host, _)| *host != CONTROLLER);
    hosts.map(|(host, survey)| (host.clone(), survey.past.clone())).collect()
}

fn is_network_check(step: &Step) -> bool {
    step.probe.as_ref().is_some_and(|timed| matches!(timed.probe, Probe::PodNetwork { .. }))
}

fn network_checks(plan: &Plan) -> impl Iterator<Item = &Step> {
    plan.steps.iter().filter(|step| is_network_check(step))
}

/// The probes and their hosts; none if the plan has none.
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
    use kubexm_plan::op::{KubeObject, Stamp};

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
    fn a_check_of_one_pipeline_holds_for_another_that_has_a_part_on_the_controller() {
        let survey = |past: &str| Survey { holding: Default::default(), past: past.to_owned() };
        let upgrade = BTreeMap::from([("a".to_owned(), survey("1"))]);
        let create = BTreeMap::from([("a".to_owned(), survey("1")), (CONTROLLER.to_owned(), survey("9"))]);
        assert_eq!(past(&upgrade), past(&create));
    }

    #[test]
    fn a_network_check_before_or_during_a_change_is_not_remembered() {
        let seen = SurveyCache::nothing();
        assert!(!seen.checked_last(), "there was none");
        seen.change(false);
        seen.begin(&check());
        assert!(seen.checked_last());
        seen.change(false);
        assert!(!seen.checked_last(), "what was under way ended after it had begun");
        seen.begin(&check());
        assert!(!seen.checked_last(), "the first of the checks was too early");
    }

    #[test]
    fn a_network_check_during_an_abandoned_change_is_not_remembered() {
        let seen = SurveyCache::nothing();
        let changing = seen.changing_host();
        seen.begin(&check());
        drop(changing);
        assert!(!seen.checked_last());
    }

    #[test]
    fn a_check_is_remembered_though_the_run_then_writes_down_what_it_has_done() {
        let stamp = Stamp { cluster: "lab".to_owned(), id: None, bundle: None, adopted: false };
        let object = |name: &str| KubeObject::new(name, Digest::of("text"));
        let of = |op: Op| Step::on("a", "record", "Record").ensure(op).undo(Undo::RestoreBefore).build();
        let seen = SurveyCache::nothing();
        seen.begin(&check());
        for op in [Op::from(stamp), Op::from(object(applied::CONFIG_MAP)), Op::from(object(applied::UPGRADED))] {
            drop(seen.changing(&of(op)));
            assert!(seen.checked_last());
        }
        assert!(!seen.holds(&check()), "every step is observed in its turn after any change");
        drop(seen.changing(&of(Op::from(object("flannel")))));
        assert!(!seen.checked_last());
    }

    #[test]
    fn the_survey_is_trusted_until_the_first_change() {
        let step = check();
        let seen = SurveyCache { holding: BTreeSet::from([step.id.clone()]), ..SurveyCache::nothing() };
        assert!(seen.holds(&step));
        seen.change(true);
        assert!(!seen.holds(&step));
    }
}
