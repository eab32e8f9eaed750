//! Locks the hosts of a run before anything is journalled or changed: a run that finds a host in another's hands says so
//! at once, with who that is.

use std::time::{Duration, Instant};

use kubexm_spec::event::EventKind;
use tokio_util::sync::CancellationToken;

use crate::events::{EventSink, event};
use crate::link::LinkError;
use crate::run_context::Links;
use crate::waits::{self, SILENCE};

/// How long an agent whose controller is gone may need to finish its step, if no step of this plan may take longer.
const FINISHING: Duration = Duration::from_secs(1800);

/// Locks every host that can be reached, until its link is closed. Waits only for agents that finish a step of a controller that
/// is gone, as long as `longest_step`, and reports that. Ends early, without every lock, when it is
/// cancelled.
///
/// # Errors
/// For each host that another live run holds: [`LinkError::Locked`].
pub async fn lock_hosts(
    links: &Links,
    longest_step: Duration,
    events: &dyn EventSink,
    cancel: &CancellationToken,
) -> Result<(), Vec<LinkError>> {
    let finishing_within = FINISHING.max(longest_step);
    let work = links.iter().map(|(host, link)| {
        let lock = async move {
            let (began, mut reported) = (Instant::now(), None);
            loop {
                let held = tokio::select! {
                    biased;
                    () = cancel.cancelled() => return Ok(()),
                    held = link.hold() => held,
                };
                let holder = match held {
                    Err(LinkError::Locked { holder, finishing: true, .. }) if began.elapsed() < finishing_within => {
                        holder
                    }
                    // The run itself decides about such hosts.
                    Err(LinkError::Unreachable { .. }) => return Ok(()),
                    other => return other,
                };
                let waited = began.elapsed();
                if reported.is_none_or(|last| waited > last * 2) {
                    reported = Some(waited.max(SILENCE));
                    let text = format!("{host}: waits until an agent has finished the last step of {holder}");
                    events.emit(event(EventKind::Note { text }));
                }
            }
        };
        (host.clone(), lock)
    });
    let ended = waits::of_hosts(events, "the host's lock", work).await;
    let errors: Vec<LinkError> = ended.into_iter().filter_map(|(_, locked)| locked.err()).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kubexm_ops::Machine;

    use super::*;
    use crate::LocalLink;
    use crate::events::Recorder;
    use crate::link::Link;
    use crate::link::agent::lock::{HostLock, LockTimeouts};

    /// Longer than any machine is busy.
    const LONG: Duration = Duration::from_secs(60);
    const AT_ONCE: LockTimeouts = LockTimeouts { other: Duration::ZERO, own: Duration::ZERO };

    fn links(machine: &Machine) -> Links {
        Links::from([("n1".to_owned(), Arc::new(LocalLink::new("n1", machine.clone())) as Arc<dyn Link>)])
    }

    async fn locked(machine: &Machine) -> Result<(), Vec<LinkError>> {
        lock_hosts(&links(machine), Duration::ZERO, &Recorder::default(), &CancellationToken::new()).await
    }

    #[tokio::test]
    async fn a_run_that_finds_a_host_held_says_by_whom_and_since_when_and_does_not_wait_for_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = kubexm_ops::fake::seed(folder.path()).expect("a host");
        let path = machine.path(crate::link::agent::LOCK_PATH);
        let lock = HostLock::acquire(&path, "create of cluster demo from ann@desk, process 7", AT_ONCE, &|| false);
        // It would be half an hour.
        let refused = tokio::time::timeout(LONG, locked(&machine)).await.expect("it does not wait");
        let refused = refused.expect_err("it is held");
        let text = refused[0].to_string();
        assert!(matches!(refused.as_slice(), [LinkError::Locked { finishing: false, .. }]), "{text}");
        for part in ["n1 is held", "ann@desk, process 7", "since 20"] {
            assert!(text.contains(part), "{text}");
        }
        drop(lock);
        locked(&machine).await.expect("it is free");
    }

    /// A host whose agent finishes a step of a controller that is gone, and goes on to do so.
    #[tokio::test]
    async fn an_operator_who_cancels_does_not_wait_for_an_agent_that_is_finishing() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = kubexm_ops::fake::seed(folder.path()).expect("a host");
        let path = machine.path(crate::link::agent::LOCK_PATH);
        let lock = HostLock::acquire(&path, "create of cluster demo from ann@desk, process 7", AT_ONCE, &|| false);
        lock.as_ref().expect("it is free").finishing();
        let cancel = CancellationToken::new();
        cancel.cancel();
        let (links, events) = (links(&machine), Recorder::default());
        let locked = lock_hosts(&links, Duration::ZERO, &events, &cancel);
        let locked = tokio::time::timeout(LONG, locked).await.expect("it does not wait");
        locked.expect("the caller asks the token");
        drop(lock);
    }
}
