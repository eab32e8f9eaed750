//! The hosts of a cluster, connected, each with its agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kubexm_engine::link::ssh::{AGENT_PATH, AgentBinary, AgentSource, SshOptions};
use kubexm_engine::link::{Link, LinkError, LinkLost};
use kubexm_engine::{EventSink, Links, waits};
use kubexm_plan::ledger::Record;
use kubexm_plan::{Facts, Plan};
use kubexm_spec::{Arch, ArtifactKey};

use crate::access::Access;
use crate::bundle::blobs::BundleBlobs;
use crate::bundle::opened::Opened;
use crate::error::SessionError;
use crate::events;
use crate::link::HostLink;
use crate::options::HostOptions;
use crate::session::Session;

/// Timeout of each stage of connecting.
const CONNECT: Duration = Duration::from_secs(20);
/// Idle time after which a connection is checked.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// What happens to a host that cannot be reached. A host that answers but refuses the login is not such a host.
#[derive(Clone, Copy, Debug)]
pub enum Unreachable<'a> {
    /// Nothing is started. The text is a hint on a separate line, or empty.
    Refused(&'a str),
    /// A run continues without up to this number of optional hosts of the plan.
    LeftOut(&'a Plan, usize),
    /// A rollback leaves them as they are, if another host can be reached.
    Untouched,
    /// A reset or a deletion lists them at its end.
    Listed,
}

/// The hosts, and how they are connected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach<'a> {
    /// Permission to connect.
    pub access: &'a Access,
    /// Agents for hosts of other architectures are taken from it. Without it hosts must have the controller's
    /// architecture.
    pub bundle: Option<&'a Opened>,
    pub hosts: &'a HostOptions,
    /// Shown to another run that finds a host locked.
    pub holder: &'a str,
}

/// Links to all hosts.
pub struct Fleet {
    links: BTreeMap<String, Arc<dyn HostLink>>,
    /// Hosts that a run continues without.
    gone: BTreeMap<String, Arc<LinkLost>>,
    /// Hosts that a reset or a deletion lists at its end.
    missing: Vec<String>,
}

impl Fleet {
    /// Connects to every host in parallel. All errors are reported together; on an error nothing is left on any host.
    pub(crate) async fn connect(
        session: &Session<'_>,
        reach: Reach<'_>,
        unreachable: Unreachable<'_>,
    ) -> Result<Self, SessionError> {
        let (mut fleet, errors) = Self::reach(session, reach).await;
        if !errors.is_empty()
            && let Err(hint) = fleet.leave_out(&errors, unreachable, session.events)
        {
            fleet.revert_agents(session.events).await;
            return Err(SessionError::Links { errors: errors.into_values().collect(), hint });
        }
        for (host, _) in fleet.links.iter().filter(|(_, link)| link.agent_installed()) {
            let text = format!("{host}: the agent was put at {AGENT_PATH}; if you decline, it is removed again");
            events::note(session.events, text);
        }
        Ok(fleet)
    }

    /// Connects to the hosts that can be used; returns the errors of the others.
    pub(crate) async fn connect_to_some(
        session: &Session<'_>,
        reach: Reach<'_>,
    ) -> Result<(Self, BTreeMap<String, LinkError>), SessionError> {
        let (fleet, errors) = Self::reach(session, reach).await;
        if fleet.links.is_empty() && !errors.is_empty() {
            return Err(SessionError::links(errors.into_values()));
        }
        Ok((fleet, errors))
    }

    /// Leaves out hosts that cannot be reached, or returns an error with a hint.
    fn leave_out(
        &mut self,
        errors: &BTreeMap<String, LinkError>,
        unreachable: Unreachable<'_>,
        events: &dyn EventSink,
    ) -> Result<(), String> {
        let gone = errors.iter().filter_map(|(host, error)| Some((host.clone(), Arc::new(LinkLost::of(error)?))));
        let gone: BTreeMap<_, _> = gone.collect();
        let all_gone = gone.len() == errors.len();
        let become_of: fn(&str) -> String = match unreachable {
            Unreachable::Refused(hint) if all_gone || hint.is_empty() => return Err(hint.to_owned()),
            Unreachable::Refused(_) => return Err("\nnothing was changed".to_owned()),
            Unreachable::LeftOut(plan, most) => {
                let optional = |name: &String| plan.hosts.iter().any(|host| host.name == *name && host.optional);
                if !all_gone || !gone.keys().all(optional) {
                    return Err(String::new());
                }
                if gone.len() > most {
                    return Err(format!("\nto continue without: --max-failed-workers {}", gone.len()));
                }
                |host| format!("the run continues without {host}")
            }
            Unreachable::Untouched if all_gone && !self.links.is_empty() => |host| format!("{host} is left as it is"),
            Unreachable::Untouched => return Err(String::new()),
            Unreachable::Listed if all_gone => {
                self.missing = errors.keys().cloned().collect();
                return Ok(());
            }
            Unreachable::Listed => return Err("\nnothing was changed".to_owned()),
        };
        for (host, error) in errors {
            events::warning(events, format!("{error}; {}", become_of(host)));
        }
        self.gone = gone;
        Ok(())
    }

    async fn reach(session: &Session<'_>, reach: Reach<'_>) -> (Self, BTreeMap<String, LinkError>) {
        events::phase(session.events, "connect");
        let known_hosts = reach.hosts.known_hosts.clone();
        let options = SshOptions {
            known_hosts: known_hosts.map_or_else(|| session.home.known_hosts(), |file| vec![file]),
            accept_new: reach.hosts.accept_new_host_keys,
            connect_timeout: CONNECT,
            keepalive: KEEPALIVE,
            holder: reach.holder.to_owned(),
            prompt: session.credentials.prompt(),
            shared: Arc::default(),
        };
        let agent = agent_programs(session, reach.bundle);
        let connecting = reach.access.targets(session).map(|(host, target)| {
            let (options, agent) = (options.clone(), agent.clone());
            let connect = async { session.connector.connect(target?, options, agent).await };
            (host.to_owned(), connect)
        });
        let (mut links, mut errors) = (BTreeMap::new(), BTreeMap::new());
        for (host, link) in waits::of_hosts(session.events, "a connection and its agent", connecting).await {
            match link {
                Ok(link) => drop(links.insert(host, link)),
                Err(error) => drop(errors.insert(host, error)),
            }
        }
        (Self { links, gone: BTreeMap::new(), missing: Vec::new() }, errors)
    }

    /// Hosts that a reset or a deletion leaves out.
    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Disconnects hosts without anything to do; an agent that was just installed is removed.
    pub(crate) async fn disconnect(&mut self, hosts: &[String], events: &dyn EventSink) {
        let mut left = Self { links: BTreeMap::new(), gone: BTreeMap::new(), missing: Vec::new() };
        for host in hosts {
            left.links.extend(self.links.remove_entry(host));
        }
        left.revert_agents(events).await;
        left.close().await;
    }

    /// Reads the ledgers of all hosts in parallel.
    pub(crate) async fn ledgers(&self, events: &dyn EventSink) -> Result<BTreeMap<String, Vec<Record>>, SessionError> {
        by_host(self.on_all(events, "its ledger", |link| async move { link.link().ledger().await }).await)
    }

    /// Gathers the facts of all hosts in parallel.
    pub(crate) async fn facts(&self, events: &dyn EventSink) -> Result<BTreeMap<String, Facts>, SessionError> {
        events::phase(events, "look");
        by_host(self.on_all(events, "its facts", |link| async move { link.link().facts().await }).await)
    }

    /// The links for the engine.
    pub(crate) fn links(&self) -> Links {
        let reached = self.links.iter().map(|(host, link)| (host.clone(), Arc::clone(link).link()));
        reached.chain(self.gone.iter().map(|(host, gone)| (host.clone(), Arc::clone(gone) as Arc<dyn Link>))).collect()
    }

    /// One host's link, shared.
    pub(crate) fn link_of(&self, host: &str) -> Option<Arc<dyn HostLink>> {
        self.links.get(host).map(Arc::clone)
    }

    /// One host's link.
    pub(crate) fn link(&self, host: &str) -> Option<&dyn HostLink> {
        self.links.get(host).map(Arc::as_ref)
    }

    /// After a refusal: removes the agent from every host on which it was just installed.
    pub(crate) async fn revert_agents(&self, events: &dyn EventSink) {
        let removed = self.on_all(events, "the removal of its agent", |link| async move { link.revert_agent().await });
        report_agents(removed.await, events);
    }

    /// Hosts on which the agent was installed for the first time.
    pub(crate) fn new_agents(&self) -> Vec<String> {
        self.links.iter().filter(|(_, link)| link.agent_is_new()).map(|(host, _)| host.clone()).collect()
    }

    /// Removes the agent from hosts that had none before a run that was rolled back.
    pub(crate) async fn delete_agents(&self, hosts: &BTreeSet<String>, events: &dyn EventSink) {
        let gone = self.links.iter().filter(|(host, _)| hosts.contains(*host));
        let gone = gone.map(|(host, link)| (host.clone(), link.delete_agent()));
        report_agents(waits::of_hosts(events, "the removal of its agent", gone).await, events);
    }

    /// After confirmation: keeps the agents. A failure to delete an older agent does not stop the run.
    pub(crate) async fn keep(&self, events: &dyn EventSink) {
        let kept = self.on_all(events, "its agent", |link| async move { link.keep_agent().await });
        for (host, kept) in kept.await {
            if let Err(error) = kept {
                events::warning(events, format!("{host}: {AGENT_PATH}.before can be removed: {error}"));
            }
        }
    }

    /// Stops the agents, which unlocks the hosts.
    pub(crate) async fn close(&self) {
        join_all(self.links.values().map(|link| link.close())).await;
    }

    /// Does the same on all hosts in parallel; `what` says for what a host is waited for.
    async fn on_all<T, F>(
        &self,
        events: &dyn EventSink,
        what: &str,
        work: impl Fn(Arc<dyn HostLink>) -> F,
    ) -> Vec<(String, Result<T, LinkError>)>
    where
        F: Future<Output = Result<T, LinkError>>,
    {
        let all = self.links.iter().map(|(host, link)| (host.clone(), work(Arc::clone(link))));
        let mut ended = waits::of_hosts(events, what, all).await;
        ended.sort_by(|(one, _), (other, _)| one.cmp(other));
        ended
    }
}

/// The results of all hosts by name.
fn by_host<T>(answers: Vec<(String, Result<T, LinkError>)>) -> Result<BTreeMap<String, T>, SessionError> {
    Ok(all(answers.into_iter().map(|(host, answer)| Ok((host, answer?))))?.into_iter().collect())
}

/// All results, or all errors.
pub(crate) fn all<T>(answers: impl IntoIterator<Item = Result<T, LinkError>>) -> Result<Vec<T>, SessionError> {
    let (mut good, mut errors) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(answer) => good.push(answer),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(good) } else { Err(SessionError::links(errors)) }
}

fn report_agents(removed: Vec<(String, Result<(), LinkError>)>, events: &dyn EventSink) {
    for (host, removed) in removed {
        if let Err(error) = removed {
            events::warning(events, format!("{host}: {AGENT_PATH} stays there and can be removed: {error}"));
        }
    }
}

/// Hosts with the controller's architecture get the session's program, the others the one in the bundle.
fn agent_programs(session: &Session<'_>, opened: Option<&Opened>) -> AgentBinary {
    let mut sources = BTreeMap::new();
    let bundled =
        opened.into_iter().flat_map(|opened| opened.bundle().manifest().artifacts.iter().map(move |a| (opened, a)));
    for (opened, artifact) in bundled.filter(|(_, artifact)| artifact.key == ArtifactKey::Installer) {
        if let Some(platform) = artifact.platform {
            let source = Arc::new(BundleBlobs(opened.bundle().clone()));
            sources.insert(platform.arch, AgentSource::Blob { digest: artifact.digest, source });
        }
    }
    if let Some(arch) = Arch::from_any(std::env::consts::ARCH) {
        sources.insert(arch, AgentSource::File(session.controller.agent.clone()));
    }
    AgentBinary { sources, path: AGENT_PATH.to_owned() }
}
