//! Hosts of a run that take blobs from each other, so that the link of the controller, or of the depot, is not what all of them wait for.
//!
//! The engine tells each host what to take next and from whom ([`board`]); hosts verify what they get by its digest, like everything else.
//! What a host cannot get that way it gets as if there were no other hosts.

mod authority;
mod board;
mod choice;
mod distrust;
mod host_set;
mod pace;
mod patience;
mod source;
#[cfg(test)]
mod tests;
mod wants;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kubexm_plan::op::{Blobs, Depots};
use kubexm_plan::{Plan, Step, StepId};
use kubexm_spec::Digest;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::link::{BlobSource, DeliverProgress, Fetched, Link, LinkError, RunIdentity};
use crate::run_context::Links;
use authority::RunAuthority;
use board::{Board, Choice, Taker, Transfer};
use source::Source;
use wants::{Wants, shared_blobs};

/// How long a host may take to begin to serve.
const OPENING: Duration = Duration::from_secs(15);

/// The transfers of one attempt at a run.
pub(crate) struct Spread<'a> {
    links: &'a Links,
    /// None if hosts do not take from each other.
    wants: Option<Wants<'a>>,
    board: Mutex<Board>,
    /// Something has changed on the board.
    moved: Notify,
    certificates: Mutex<Certificates>,
    brought: Mutex<Brought>,
}

#[derive(Default)]
struct Certificates {
    authority: Option<RunAuthority>,
    of_hosts: BTreeMap<IpAddr, RunIdentity>,
    /// What each host serves already.
    serving: BTreeMap<SocketAddr, BTreeSet<Digest>>,
}

/// Bytes that hosts got, by where from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Brought {
    /// From other hosts.
    pub(crate) hosts: u64,
    pub(crate) depots: u64,
    pub(crate) controller: u64,
}

impl Brought {
    /// For people; none if hosts took nothing from each other.
    pub(crate) fn summary(&self) -> Option<String> {
        let Self { hosts, depots, controller } = self.map(|bytes| bytes.div_ceil(1_000_000));
        (hosts > 0).then(|| {
            format!("hosts took {hosts} MB of content from each other, {depots} MB from depots and {controller} MB from this machine")
        })
    }

    fn map(self, each: impl Fn(u64) -> u64) -> Self {
        Self { hosts: each(self.hosts), depots: each(self.depots), controller: each(self.controller) }
    }
}

/// A host that is being filled.
pub(crate) struct Fill<'f> {
    pub(crate) step: &'f Step,
    pub(crate) op: &'f Blobs,
    /// Where it serves.
    pub(crate) at: SocketAddr,
    pub(crate) link: &'f dyn Link,
    /// When the time of the step is over.
    pub(crate) ends: Instant,
    /// What it lacks, with sizes.
    pub(crate) missing: BTreeMap<Digest, u64>,
    /// The controller's.
    pub(crate) blobs: &'f dyn BlobSource,
    pub(crate) progress: DeliverProgress<'f>,
    /// Reports a source that failed.
    pub(crate) warn: &'f (dyn Fn(String) + Send + Sync),
}

impl<'a> Spread<'a> {
    pub(crate) fn of(plan: &'a Plan, links: &'a Links, used: bool) -> Self {
        let wants = used.then(|| Wants::of(plan)).filter(|wants| wants.fillings.len() > 1);
        let hosts: Vec<SocketAddr> =
            wants.iter().flat_map(|wants: &Wants<'_>| &wants.fillings).map(|filling| filling.address).collect();
        Self {
            links,
            wants,
            board: Mutex::new(Board::new(hosts, Instant::now())),
            moved: Notify::new(),
            certificates: Mutex::default(),
            brought: Mutex::default(),
        }
    }

    /// The host of a step has all its blobs, and may serve them.
    pub(crate) fn holds(&self, step: &Step) {
        for op in shared_blobs(step) {
            if let Some(at) = op.shared_at {
                self.claims(at, op.blobs.keys().copied());
            }
        }
    }

    /// A host has these blobs, and may serve them.
    fn has(&self, host: SocketAddr, blobs: impl IntoIterator<Item = Digest>) {
        let Some(wants) = &self.wants else { return };
        self.board().has(host, blobs.into_iter().filter(|digest| wants.is_of_others(host, digest)));
        self.moved.notify_waiters();
    }

    /// A host says that it has these blobs, and may serve them.
    fn claims(&self, host: SocketAddr, blobs: impl IntoIterator<Item = Digest>) {
        let Some(wants) = &self.wants else { return };
        self.board().claims(host, blobs.into_iter().filter(|digest| wants.is_of_others(host, digest)));
        self.moved.notify_waiters();
    }

    /// What a host has is taken back: nobody takes it from there any more.
    pub(crate) async fn forget(&self, host: &str) {
        let fillings = self.wants.iter().flat_map(|wants| &wants.fillings).filter(|filling| filling.host == host);
        let addresses: BTreeSet<SocketAddr> = fillings.map(|filling| filling.address).collect();
        for address in addresses {
            self.board().forget(address);
            self.moved.notify_waiters();
            let serves = self.certificates().serving.remove(&address).is_some();
            if let (true, Some(link), Ok(identity)) = (serves, self.links.get(host), self.identity(address.ip())) {
                // One that is out of reach serves nobody when its agent ends.
                let _ = tokio::time::timeout(OPENING, link.share(address, &[], &identity)).await;
            }
        }
    }

    /// A host that serves others got so much from elsewhere than by [`Spread::fill`].
    pub(crate) fn brought_by_others(&self, depots: u64, controller: u64) {
        let mut brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
        brought.depots += depots;
        brought.controller += controller;
    }

    /// What hosts got in this attempt.
    pub(crate) fn brought(&self) -> Brought {
        *self.brought.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills a host as far as it can be with the others; returns what it still lacks. That it gets as if there were no others, within
    /// the time that a step has for it without them: this ends before. Dropping the future ends nothing on the host, and the others no
    /// longer wait for it.
    pub(crate) async fn fill(&self, fill: Fill<'_>) -> Result<BTreeMap<Digest, u64>, LinkError> {
        let Some(wants) = &self.wants else { return Ok(fill.missing) };
        let (own, depots) = (fill.at, fill.op.depots.as_ref());
        let urls = depots.into_iter().flat_map(|depots| depots.urls.iter().cloned().map(Source::Depot));
        let origins: Vec<Source> = urls.chain([Source::Controller]).collect();
        let wanted = wants.beside(&fill.step.id);
        self.claims(own, fill.op.blobs.keys().filter(|digest| !fill.missing.contains_key(*digest)).copied());
        self.board().enter(Taker { address: own, missing: fill.missing.clone(), origins, wanted });
        self.moved.notify_waiters();
        let filled = Filled { spread: self, host: own };
        let mut running = FuturesUnordered::new();
        let mut stops: BTreeMap<u64, CancellationToken> = BTreeMap::new();
        loop {
            // Registered before the board is looked at, so that no change is missed.
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let Some(mut wait) = self.time_left(&fill) else { return Ok(filled.leave()) };
            while !self.board().is_filled(own) {
                let next = self.board().next(own, Instant::now());
                match next {
                    Choice::Take(transfer) => {
                        let guard = Guard { spread: self, number: transfer.number };
                        let (link, blobs, progress) = ((fill.link, &fill.step.id, depots), fill.blobs, fill.progress);
                        let stop = CancellationToken::new();
                        stops.insert(transfer.number, stop.clone());
                        running.push(async move {
                            let done = tokio::select! {
                                done = self.transfer(&transfer, own, link, blobs, progress) => done,
                                () = stop.cancelled() => Ok(Done::GivenUp),
                            };
                            (transfer, guard, done)
                        });
                    }
                    Choice::GiveUp(number) => {
                        if let Some(stop) = stops.remove(&number) {
                            stop.cancel();
                        }
                    }
                    Choice::Wait(longest) => {
                        wait = wait.min(longest);
                        break;
                    }
                    // What is on its way is waited for.
                    Choice::Alone if running.is_empty() => return Ok(filled.leave()),
                    Choice::Alone => {
                        wait = wait.min(self.board().until_review(Instant::now()));
                        break;
                    }
                }
            }
            if running.is_empty() && self.board().is_filled(own) {
                return Ok(filled.leave());
            }
            tokio::select! {
                Some((transfer, _guard, done)) = running.next(), if !running.is_empty() => {
                    stops.remove(&transfer.number);
                    // The host still takes what was on its way to it, until it is asked for that again.
                    self.settle(&fill, own, &transfer, done?);
                }
                () = &mut moved => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// How long others may still be waited for, so that the rest has its time without them.
    fn time_left(&self, fill: &Fill<'_>) -> Option<Duration> {
        let lacking = self.board().lacking(fill.at);
        let rest = Duration::from_secs(fill.op.limit_s(lacking));
        let left = fill.ends.saturating_duration_since(Instant::now()).checked_sub(rest)?;
        (!left.is_zero()).then_some(left)
    }

    async fn transfer(
        &self,
        transfer: &Transfer,
        own: SocketAddr,
        (link, step, depots): (&dyn Link, &StepId, Option<&Depots>),
        controller: &dyn BlobSource,
        progress: DeliverProgress<'_>,
    ) -> Result<Done, LinkError> {
        let blobs: Vec<(Digest, u64)> = transfer.blobs.iter().map(|(digest, size)| (*digest, *size)).collect();
        match (&transfer.source, depots) {
            (Source::Depot(url), Some(depots)) => {
                let depot = Depots { urls: vec![url.clone()], ..depots.clone() };
                link.fetch(step, &blobs, &depot, progress).await.map(Done::Answered)
            }
            (Source::Host(from), _) => {
                if let Err(reason) = self.opened(*from).await {
                    return Ok(Done::Closed(reason));
                }
                match self.identity(own.ip()) {
                    Ok(identity) => {
                        link.fetch_shared(step, &blobs, *from, &identity, progress).await.map(Done::Answered)
                    }
                    Err(reason) => Ok(Done::Closed(reason)),
                }
            }
            (Source::Controller | Source::Depot(_), _) => {
                let arrived = Mutex::new(BTreeMap::new());
                let counted = |digest: Digest, done: u64, size: u64| {
                    // What the host had before is in the first report.
                    let before = arrived.lock().unwrap_or_else(PoisonError::into_inner).insert(digest, done);
                    self.board().progress(transfer.number, done.saturating_sub(before.unwrap_or(done)));
                    progress(digest, done, size);
                };
                link.deliver(&blobs, controller, &counted).await.map(|()| Done::Answered(Fetched::default()))
            }
        }
    }

    /// Takes note of the end of a transfer.
    fn settle(&self, fill: &Fill<'_>, own: SocketAddr, transfer: &Transfer, done: Done) {
        let now = Instant::now();
        let (done, closed) = match done {
            Done::Answered(done) => (done, None),
            // The board has taken note.
            Done::GivenUp => {
                if let Source::Host(from) = transfer.source {
                    (fill.warn)(format!("{}: host {from} sends too slowly; it is left for a while", fill.step.id));
                }
                return;
            }
            Done::Closed(reason) => {
                let missing = transfer.blobs.iter().map(|(digest, size)| (*digest, *size)).collect();
                (Fetched { missing, ..Fetched::default() }, Some(reason))
            }
        };
        let lacking: BTreeSet<Digest> = done.missing.iter().map(|(digest, _)| *digest).collect();
        let came = || transfer.blobs.iter().filter(|(digest, _)| !lacking.contains(*digest));
        let bytes: u64 = came().map(|(_, size)| *size).sum();
        {
            let mut brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
            match transfer.source {
                Source::Host(_) => brought.hosts += bytes,
                Source::Depot(_) => brought.depots += bytes,
                Source::Controller => brought.controller += bytes,
            }
        }
        {
            let mut board = self.board();
            board.ended(transfer.number, bytes, now);
            board.came(own, came().map(|(digest, _)| *digest));
            match (&transfer.source, &closed) {
                // The fault is the source's, not this host's.
                (Source::Host(from), Some(_)) => board.close(*from, now),
                // A line that is slow is not a source that fails: the rest is taken from elsewhere.
                _ if done.still_coming => board.crawls(own, &transfer.source, now),
                _ if done.reasons.is_empty() => {
                    lacking.iter().for_each(|digest| board.lacks(own, &transfer.source, *digest, now));
                }
                _ => board.failed(own, &transfer.source, now),
            }
        }
        if let (Source::Host(from), true) = (&transfer.source, closed.is_some() || !done.reasons.is_empty()) {
            // Its agent may be another one by now: who takes from it next opens it again.
            self.certificates().serving.remove(from);
        }
        for reason in closed.into_iter().chain(done.reasons).map(|reason| kubexm_spec::one_line(&reason)) {
            (fill.warn)(match &transfer.source {
                Source::Host(_) => format!("{}: {reason}; it is left for a while", fill.step.id),
                _ => format!("{}: {reason}; blobs that no depot serves are sent from this machine", fill.step.id),
            });
        }
        self.has(own, came().map(|(digest, _)| *digest));
    }

    /// Lets a host serve what it has, unless it does.
    async fn opened(&self, host: SocketAddr) -> Result<(), String> {
        let has = self.board().blobs_of(host);
        if self.certificates().serving.get(&host).is_some_and(|serving| serving.is_superset(&has)) {
            return Ok(());
        }
        let name = self.wants.iter().flat_map(|wants| &wants.fillings).find(|filling| filling.address == host);
        let Some((name, link)) = name.and_then(|filling| Some((filling.host, self.links.get(filling.host)?))) else {
            return Err(format!("there is no link to the host at {host}"));
        };
        let failed = |reason: String| format!("{name} does not serve other hosts: {reason}");
        if link.lost_for().is_some() {
            return Err(failed("it is out of reach".to_owned()));
        }
        let identity = self.identity(host.ip())?;
        let blobs: Vec<Digest> = has.iter().copied().collect();
        match tokio::time::timeout(OPENING, link.share(host, &blobs, &identity)).await {
            Ok(Ok(())) => drop(self.certificates().serving.insert(host, has)),
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed(format!("no answer within {} s", OPENING.as_secs()))),
        }
        Ok(())
    }

    fn identity(&self, address: IpAddr) -> Result<RunIdentity, String> {
        let failed = |error: rcgen::Error| format!("no certificate for {address} can be made: {error}");
        let mut certificates = self.certificates();
        if let Some(identity) = certificates.of_hosts.get(&address) {
            return Ok(identity.clone());
        }
        let authority = match certificates.authority.take() {
            Some(authority) => authority,
            None => RunAuthority::make().map_err(failed)?,
        };
        let identity = authority.identity(address).map_err(failed);
        certificates.authority = Some(authority);
        let identity = identity?;
        certificates.of_hosts.insert(address, identity.clone());
        Ok(identity)
    }

    /// Never held across an await.
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never held across an await.
    fn certificates(&self) -> MutexGuard<'_, Certificates> {
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a transfer ended.
enum Done {
    Answered(Fetched),
    /// It took much longer than others.
    GivenUp,
    /// Its source did not begin to serve, and why.
    Closed(String),
}

/// A host that is being filled as long as it exists.
struct Filled<'s, 'a> {
    spread: &'s Spread<'a>,
    host: SocketAddr,
}

impl Filled<'_, '_> {
    /// What it still lacks.
    fn leave(self) -> BTreeMap<Digest, u64> {
        self.spread.board().leave(self.host)
    }
}

impl Drop for Filled<'_, '_> {
    fn drop(&mut self) {
        self.spread.board().leave(self.host);
        self.spread.moved.notify_waiters();
    }
}

/// A transfer that is underway as long as it exists.
struct Guard<'s, 'a> {
    spread: &'s Spread<'a>,
    number: u64,
}

impl Drop for Guard<'_, '_> {
    fn drop(&mut self) {
        self.spread.board().ended(self.number, 0, Instant::now());
        self.spread.moved.notify_waiters();
    }
}
