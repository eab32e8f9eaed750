//! The hosts of a cluster, connected, each with its agent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kubexm_engine::link::ssh::{AGENT_PATH, AgentBinary, AgentSource, SshLink, SshOptions};
use kubexm_engine::link::{Gone, Link, LinkError};
use kubexm_engine::{EventSink, Links};
use kubexm_plan::ledger::Record;
use kubexm_plan::{Facts, Plan};
use kubexm_spec::{Arch, ArtifactKey};
use kubexm_terminal::Failure;

use super::access::Access;
use super::blobs::BundleBlobs;
use super::opened::Opened;
use crate::commands::args::HostArgs;
use crate::support::home::Home;
use crate::support::secrets::Terminal;
use crate::support::{events, failures};

/// For each stage of connecting.
const CONNECT: Duration = Duration::from_secs(20);
/// Quiet time after which a connection is checked.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// What becomes of a host that is left out, in words.
type Left = fn(&str) -> String;

const fn left(words: Left) -> Left {
    words
}

/// Links to all hosts.
pub struct Fleet {
    links: BTreeMap<String, Arc<SshLink>>,
    /// Hosts that a run is carried on without.
    gone: BTreeMap<String, Arc<Gone>>,
}

impl Fleet {
    /// Connects to every host at once; what is wrong with any of them is told together, and nothing stays behind.
    pub async fn connect(
        (opened, access): (&Opened, &Access),
        home: &Home,
        args: &HostArgs,
        holder: &str,
        events: &dyn EventSink,
    ) -> Result<Self, Failure> {
        let reached = Self::reach(access, Some(opened), home, args, holder, events).await;
        let nobody = |errors: &BTreeMap<String, LinkError>, _: &Self| Err(failures::links(errors.values()));
        Self::without(reached, |_| false, nobody, events).await
    }

    /// The same for a run that goes on: without those that cannot be reached now, when the plan can do without each of them and
    /// they are no more than the operator allows. It leaves them out as it would if they went away later.
    pub async fn connect_but(
        (opened, access, plan, most): (&Opened, &Access, &Plan, usize),
        home: &Home,
        args: &HostArgs,
        holder: &str,
        events: &dyn EventSink,
    ) -> Result<Self, Failure> {
        let reached = Self::reach(access, Some(opened), home, args, holder, events).await;
        let expendable = |name: &str| plan.hosts.iter().any(|host| host.name == name && host.expendable);
        let judge = |errors: &BTreeMap<String, LinkError>, fleet: &Self| {
            let without = fleet.gone.len();
            if without == errors.len() && without <= most {
                return Ok(left(|host| format!("the run goes on without {host}")));
            }
            let mut failure = failures::links(errors.values());
            if without == errors.len() {
                failure.text.push_str(&format!("\nto go on without: --max-failed-workers {without}"));
            }
            Err(failure)
        };
        Self::without(reached, expendable, judge, events).await
    }

    /// The same for a rollback that may leave hosts as they are: without those that cannot be reached now. A host that answers
    /// and refuses us is no such host.
    pub async fn connect_without_gone(
        (opened, access): (&Opened, &Access),
        home: &Home,
        args: &HostArgs,
        holder: &str,
        events: &dyn EventSink,
    ) -> Result<Self, Failure> {
        let reached = Self::reach(access, Some(opened), home, args, holder, events).await;
        let judge = |errors: &BTreeMap<String, LinkError>, fleet: &Self| {
            let all_gone = fleet.gone.len() == errors.len();
            if all_gone && !fleet.links.is_empty() {
                return Ok(left(|host| format!("{host} is left as it is")));
            }
            Err(failures::links(errors.values()))
        };
        Self::without(reached, |_| true, judge, events).await
    }

    /// Of hosts that were reached or not: those that went away and may be left out are told and left out, when `judge` has a word
    /// for what becomes of them; else nothing stays behind.
    async fn without(
        (mut fleet, errors): (Self, BTreeMap<String, LinkError>),
        may_be_left_out: impl Fn(&str) -> bool,
        judge: impl FnOnce(&BTreeMap<String, LinkError>, &Self) -> Result<Left, Failure>,
        events: &dyn EventSink,
    ) -> Result<Self, Failure> {
        if !errors.is_empty() {
            let gone = errors.iter().filter(|(host, _)| may_be_left_out(host));
            fleet.gone = gone.filter_map(|(host, error)| Some((host.clone(), Arc::new(Gone::of(error)?)))).collect();
            match judge(&errors, &fleet) {
                Ok(left) => {
                    for (host, error) in &errors {
                        events::warning(events, format!("{error}; {}", left(host)));
                    }
                }
                Err(failure) => {
                    fleet.withdraw(events).await;
                    return Err(failure);
                }
            }
        }
        fleet.tell_of_agents(events);
        Ok(fleet)
    }

    /// Connects to every host that is granted, at once, and says why the others were not reached. Without a bundle the hosts
    /// must have this machine's architecture.
    pub async fn reach(
        access: &Access,
        opened: Option<&Opened>,
        home: &Home,
        args: &HostArgs,
        holder: &str,
        events: &dyn EventSink,
    ) -> (Self, BTreeMap<String, LinkError>) {
        events::phase(events, "connect");
        let options = SshOptions {
            known_hosts: args.known_hosts.clone().map_or_else(|| home.known_hosts(), |file| vec![file]),
            accept_new: args.accept_new_host_keys,
            connect_timeout: CONNECT,
            keepalive: KEEPALIVE,
            holder: holder.to_owned(),
            prompt: Arc::new(Terminal::default()),
            shared: Arc::default(),
        };
        let agent = agent_programs(opened);
        let connecting = access.targets(home).map(|(host, target)| {
            let (options, agent) = (options.clone(), agent.clone());
            async move { (host.to_owned(), async { SshLink::connect(target?, options, agent).await }.await) }
        });
        let (mut links, mut errors) = (BTreeMap::new(), BTreeMap::new());
        for (host, link) in join_all(connecting).await {
            match link {
                Ok(link) => drop(links.insert(host, Arc::new(link))),
                Err(error) => drop(errors.insert(host, error)),
            }
        }
        (Self { links, gone: BTreeMap::new() }, errors)
    }

    /// Says where the agent was put just now.
    pub fn tell_of_agents(&self, events: &dyn EventSink) {
        for (host, _) in self.links.iter().filter(|(_, link)| link.agent_installed()) {
            events::note(events, format!("{host}: our agent was put at {AGENT_PATH}; a refusal takes it away again"));
        }
    }

    /// Lets go of hosts on which there is nothing to do; an agent that was put there now goes again.
    pub async fn leave(&mut self, hosts: &[String], events: &dyn EventSink) {
        let mut left = Self { links: BTreeMap::new(), gone: BTreeMap::new() };
        for host in hosts {
            left.links.extend(self.links.remove_entry(host));
        }
        left.withdraw(events).await;
        left.close().await;
    }

    /// Reads the ledger of every host at once.
    pub async fn ledgers(&self) -> Result<BTreeMap<String, Vec<Record>>, Failure> {
        let read = join_all(self.links.iter().map(|(host, link)| async move { (host.clone(), link.ledger().await) }));
        let (mut ledgers, mut errors) = (BTreeMap::new(), Vec::new());
        for (host, read) in read.await {
            match read {
                Ok(records) => drop(ledgers.insert(host, records)),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(ledgers) } else { Err(failures::links(&errors)) }
    }

    /// Looks at every host at once.
    pub async fn facts(&self, events: &dyn EventSink) -> Result<BTreeMap<String, Facts>, Failure> {
        events::phase(events, "look");
        let looked = join_all(self.links.iter().map(|(host, link)| async move { (host.clone(), link.facts().await) }));
        let (mut facts, mut errors) = (BTreeMap::new(), Vec::new());
        for (host, looked) in looked.await {
            match looked {
                Ok(seen) => drop(facts.insert(host, seen)),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(facts) } else { Err(failures::links(&errors)) }
    }

    /// The links as the engine takes them.
    pub fn links(&self) -> Links {
        let reached = self.links.iter().map(|(host, link)| (host.clone(), Arc::clone(link) as Arc<dyn Link>));
        reached.chain(self.gone.iter().map(|(host, gone)| (host.clone(), Arc::clone(gone) as Arc<dyn Link>))).collect()
    }

    /// One host's link.
    pub fn link(&self, host: &str) -> Option<&SshLink> {
        self.links.get(host).map(Arc::as_ref)
    }

    /// The work before a yes. When it ends in a no or a failure the agents go again, else they stay.
    pub async fn unless_refused<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
        events: &dyn EventSink,
    ) -> Result<T, Failure> {
        let decided = work.await;
        match &decided {
            Ok(_) => self.keep(events).await,
            Err(_) => self.withdraw(events).await,
        }
        decided
    }

    /// After a refusal: takes the agent away again from every host where it was put now.
    pub async fn withdraw(&self, events: &dyn EventSink) {
        told_of_agents(self.on_all(|link| async move { link.remove_agent().await }).await, events);
    }

    /// Hosts that had no agent until it was put there now.
    pub fn new_agents(&self) -> Vec<String> {
        self.links.iter().filter(|(_, link)| link.agent_is_new()).map(|(host, _)| host.clone()).collect()
    }

    /// Takes the agent away from hosts that had none before a run that was taken back.
    pub async fn take_agents_away(&self, hosts: &BTreeSet<String>, events: &dyn EventSink) {
        let gone = self.links.iter().filter(|(host, _)| hosts.contains(*host));
        let gone = gone.map(|(host, link)| async move { (host.clone(), link.take_agent_away().await) });
        told_of_agents(join_all(gone).await, events);
    }

    /// After a yes: the agents stay. What an older one leaves is no reason to stop.
    pub async fn keep(&self, events: &dyn EventSink) {
        for (host, kept) in self.on_all(|link| async move { link.keep_agent().await }).await {
            if let Err(error) = kept {
                events::warning(events, format!("{host}: {AGENT_PATH}.before can be removed: {error}"));
            }
        }
    }

    /// Ends the agents; the hosts are free afterwards.
    pub async fn close(&self) {
        join_all(self.links.values().map(|link| link.close())).await;
    }

    async fn on_all<F>(&self, work: impl Fn(Arc<SshLink>) -> F) -> Vec<(String, Result<(), LinkError>)>
    where
        F: Future<Output = Result<(), LinkError>>,
    {
        let all = self.links.iter().map(|(host, link)| {
            let work = work(Arc::clone(link));
            async move { (host.clone(), work.await) }
        });
        join_all(all).await
    }
}

fn told_of_agents(removed: Vec<(String, Result<(), LinkError>)>, events: &dyn EventSink) {
    for (host, removed) in removed {
        if let Err(error) = removed {
            events::warning(events, format!("{host}: {AGENT_PATH} stays there and can be removed: {error}"));
        }
    }
}

/// Hosts of our own architecture get this very program, the others the one that the bundle carries.
fn agent_programs(opened: Option<&Opened>) -> AgentBinary {
    let mut sources = BTreeMap::new();
    let bundled =
        opened.into_iter().flat_map(|opened| opened.bundle.manifest().artifacts.iter().map(move |a| (opened, a)));
    for (opened, artifact) in bundled.filter(|(_, artifact)| artifact.key == ArtifactKey::Installer) {
        if let Some(platform) = artifact.platform {
            let source = Arc::new(BundleBlobs(opened.bundle.clone()));
            sources.insert(platform.arch, AgentSource::Blob { digest: artifact.digest, source });
        }
    }
    if let Some(arch) = Arch::from_any(std::env::consts::ARCH) {
        sources.insert(arch, AgentSource::File(PathBuf::from("/proc/self/exe")));
    }
    AgentBinary { sources, path: AGENT_PATH.to_owned() }
}
