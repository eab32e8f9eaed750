//! The agent: this program on a node, serving one controller over its standard input and output.
//!
//! [`serve`] answers requests that observe or change the node; [`serve_store`], on a separate channel, receives blobs.
//! Both use plain threads; only network waits (blobs from depots, the mesh) have an async runtime. Each request runs on
//! its own thread, so that a `Ping` is answered while a step takes minutes. When the channel closes, or nothing was
//! received for [`SILENCE`], no further request is accepted, running steps are finished and recorded in the ledger, and
//! the agent exits.

mod channel;
pub mod fetch;
mod in_flight;
pub(crate) mod lock;
mod mesh;
mod share;
mod store;
#[cfg(test)]
mod unsynced;
mod work;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use kubexm_spec::{Digest, error_chain};

use kubexm_plan::backup::{BackupAnswer, BackupAsk};
use zeroize::Zeroizing;

use super::wire::{Frame, Request, RequestMessage, Response, RunIdentity, Secret, WireError, frame};
use super::{Change, Fetched};
use crate::clock::unix_ms;
pub use channel::AgentError;
use channel::{Frames, Out, hello, next_frame, not_here, read_frames};
use in_flight::{InFlight, Turn};
use lock::{HostLock, LockTimeouts, Presence};
pub use store::serve_store;
pub use work::{LOCK_PATH, PRESENT_PATH, Work};

/// A controller sends a ping every few seconds. If nothing was received for this long it is gone, even if the
/// connection seems to be open: sshd detects a lost network only after hours.
pub const SILENCE: Duration = Duration::from_secs(60);
/// The most requests that run at the same time.
const MAX_PARALLEL: usize = 64;
/// How long a step waits for a host that another live run has locked.
const OTHER_RUN: Duration = Duration::from_secs(3);

/// Serves until the controller says `Bye` or the channel closes.
pub fn serve(
    stdin: impl Read + Send + 'static,
    stdout: impl Write + Send + 'static,
    work: impl Work,
) -> Result<(), AgentError> {
    let agent = Arc::new(Agent {
        out: Out::new(stdout)?,
        lock: Mutex::new(None),
        holder: Mutex::new(String::new()),
        gone: AtomicBool::new(false),
        listening: Mutex::new(None),
        sharing: Mutex::new(None),
        in_flight: InFlight::default(),
        work,
    });
    let frames = read_frames(stdin)?;
    // Before the first answer: after it a controller relies on the program.
    let _present = Presence::take(&agent.work.present_path());
    let mut running: Vec<JoinHandle<()>> = Vec::new();
    let mut bye = None;
    let ended = loop {
        let request = match next_request(&frames, SILENCE) {
            Ok(Some(request)) => request,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error.into()),
        };
        running.retain(|thread| !thread.is_finished());
        match request.ask {
            Request::Hello { protocol, ref holder, .. } => {
                agent.holder.lock().unwrap_or_else(PoisonError::into_inner).clone_from(holder);
                agent.out.answer(request.id, hello(protocol));
            }
            Request::Ping => agent.out.answer(request.id, Response::Pong { clock_ms: unix_ms() }),
            Request::Bye => {
                bye = Some(request.id);
                break Ok(());
            }
            ask if running.len() < MAX_PARALLEL => {
                let agent = Arc::clone(&agent);
                let thread = std::thread::Builder::new().name("request".into());
                let place = match &ask {
                    Request::Converge { .. } => agent.in_flight.change(),
                    Request::Fetch { step, blobs, .. } | Request::FetchShared { step, blobs, .. } => {
                        agent.in_flight.fetch(step.clone(), blobs.keys().copied().collect())
                    }
                    Request::Undo { step, .. } => agent.in_flight.undo(&step.id),
                    Request::EndFetches { blobs } => agent.in_flight.end_fetches(blobs),
                    _ => agent.in_flight.other(),
                };
                let work = move || {
                    agent.out.answer(request.id, agent.answer(ask, &place));
                    // Released before the answer is sent, so that waiting requests answer later.
                    drop(place);
                };
                running.push(thread.spawn(work).map_err(AgentError::Thread)?);
            }
            _ => {
                let text = format!("more than {MAX_PARALLEL} requests at once");
                agent.out.answer(request.id, Response::Failed { text });
            }
        }
    };
    agent.gone.store(true, Ordering::SeqCst);
    // Nobody is served for a controller that is gone.
    agent.sharing.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(lock) = &*agent.lock.lock().unwrap_or_else(PoisonError::into_inner) {
        lock.finishing();
    }
    for thread in running {
        // A thread that panicked has sent no answer; the controller asks again.
        let _ = thread.join();
    }
    if let Some(id) = bye {
        agent.out.answer(id, Response::Bye);
    }
    ended
}

struct Agent<W> {
    out: Out,
    lock: Mutex<Option<HostLock>>,
    holder: Mutex<String>,
    gone: AtomicBool,
    listening: Mutex<Option<mesh::Listening>>,
    sharing: Mutex<Option<share::Sharing>>,
    in_flight: InFlight,
    work: W,
}

impl<W: Work> Agent<W> {
    fn answer(&self, ask: Request, place: &Turn) -> Response {
        let answered = match ask {
            Request::Facts { host, folders } => {
                self.work.facts(&host, &folders).map(|facts| Response::Facts { facts: Box::new(facts) })
            }
            Request::ClusterFacts { host } => {
                Ok(Response::ClusterFacts { facts: Box::new(self.work.cluster_facts(&host)) })
            }
            Request::Hold => match self.hold(0) {
                Err(locked) => return locked,
                Ok(()) => Ok(Response::Held),
            },
            Request::Observe { step, texts, slots } => match self.hold(step.timeout_s) {
                Err(locked) => return locked,
                Ok(()) => {
                    self.work.observe(&step, texts, slots.into_values()).map(|found| Response::Observed { found })
                }
            },
            Request::Survey { steps, texts, slots } => {
                match self.hold(steps.iter().map(|step| step.timeout_s).max().unwrap_or_default()) {
                    Err(locked) => return locked,
                    Ok(()) => {
                        let surveyed = self.work.survey(&steps, texts, slots.into_values());
                        surveyed.map(|survey| Response::Surveyed { survey })
                    }
                }
            }
            Request::Drift { steps, texts, slots } => {
                self.work.drift(&steps, texts, slots.into_values()).map(|drift| Response::Drift { drift })
            }
            Request::Converge { step, texts, slots, run, sequence, before } => match self.hold(step.timeout_s) {
                Err(locked) => return locked,
                Ok(()) => {
                    let change = Change { run: &run, sequence, before: &before };
                    let work = || self.work.converge(&step, texts, slots.into_values(), change);
                    self.in_flight.alone(&step.id, work).map(|()| Response::Converged)
                }
            },
            Request::Undo { step, texts, run, sequence, before, wave } => match self.hold(step.timeout_s) {
                Err(locked) => return locked,
                Ok(()) => {
                    let change = Change { run: &run, sequence, before: &before };
                    let work = || self.work.undo(&step, texts, change, wave);
                    place.wait_for_earlier();
                    self.in_flight.alone(&step.id, work).map(|()| Response::Undone)
                }
            },
            Request::Provide { provider } => match self.hold(OTHER_RUN.as_secs()) {
                Err(locked) => return locked,
                Ok(()) => self.work.provide(&provider).map(|value| Response::Provided { value: Secret(value) }),
            },
            Request::Ledger => self.work.ledger().map(|records| Response::Ledger { records }),
            Request::Fetch { blobs, depots, .. } => {
                let gone = || self.gone.load(Ordering::SeqCst) || place.is_ended();
                let bytes = blobs.values().fold(0_u64, |sum, size| sum.saturating_add(*size));
                let fetched =
                    fetch::fetch(fetch::Limits::of(bytes, &depots), &self.work.store_path(), &blobs, &depots, gone);
                fetched.map(answered)
            }
            Request::FetchShared { blobs, from, identity, .. } => {
                let gone = || self.gone.load(Ordering::SeqCst) || place.is_ended();
                fetch::fetch_shared(&self.work.store_path(), &blobs, from, &identity, gone).map(answered)
            }
            Request::EndFetches { .. } => {
                place.wait_for_ended();
                Ok(Response::FetchesEnded)
            }
            Request::Share { listen, blobs, identity } => self.share(listen, blobs, identity),
            Request::Listen { ports } => {
                let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
                // The old listeners are closed first: the new ones may need the same ports.
                *listening = None;
                mesh::Listening::on(&ports).map(|on| *listening = on).map(|()| Response::Listening)
            }
            Request::ConnectionCheck { dials } => mesh::dial(dials).map(|dialed| Response::ConnectionResult { dialed }),
            Request::Probe { probe } => self.work.probe(&probe).map(|answer| Response::Probed { answer }),
            Request::StoreMissing { blobs } => store::missing(&self.work, &blobs),
            Request::AdminKubeconfig => {
                self.work.admin_kubeconfig().map(|file| Response::AdminKubeconfig { file: Secret(file) })
            }
            Request::Backup { what } => {
                if matches!(what, BackupAsk::Make { .. })
                    && let Err(locked) = self.hold(0)
                {
                    return locked;
                }
                self.work.backup(&what).map(|answer| match answer {
                    BackupAnswer::Made { archive, etcd } => Response::BackupMade { archive, etcd },
                    BackupAnswer::Bytes { bytes } => Response::BackupBytes { bytes: Secret(bytes) },
                    BackupAnswer::Forgotten => Response::BackupForgotten,
                })
            }
            Request::Addons { ask } => {
                self.work.addons(&ask).map(|installed| Response::Addons { installed: Box::new(installed) })
            }
            Request::Depot => self.work.depot().map(|content| Response::Depot { content: Box::new(content) }),
            Request::AskEtcd { what, key } => {
                Ok(Response::EtcdAnswered { answer: self.work.ask_etcd(&what, &Zeroizing::new(key.0)) })
            }
            Request::Evidence => self.work.evidence().map(|files| Response::Evidence { files }),
            Request::StepLog { run, step } => self.work.step_log(&run, &step).map(|text| Response::StepLog { text }),
            Request::StorePut { .. } => return not_here("blobs are sent over a store channel"),
            Request::Hello { .. } | Request::Ping | Request::Bye => {
                return not_here("this request is not for the agent's work");
            }
        };
        answered.unwrap_or_else(|text| Response::Failed { text })
    }

    /// Serves these blobs too, as this run's host; another run's server ends, and without any blob this one's.
    fn share(&self, listen: SocketAddr, blobs: BTreeSet<Digest>, identity: RunIdentity) -> Result<Response, String> {
        let mut sharing = self.sharing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.gone.load(Ordering::SeqCst) {
            return Err("the connection to the controller is lost".to_owned());
        }
        if blobs.is_empty() {
            *sharing = None;
            return Ok(Response::Sharing);
        }
        if !sharing.as_ref().is_some_and(|sharing| sharing.is_of(listen, &identity)) {
            // Closed first: the new one may need the same port.
            *sharing = None;
            *sharing = Some(share::Sharing::start(listen, self.work.store_path(), identity)?);
        }
        if let Some(sharing) = &*sharing {
            sharing.add(blobs);
        }
        Ok(Response::Sharing)
    }

    /// Locks the host from the first step until the agent ends.
    fn hold(&self, timeout_s: u64) -> Result<(), Response> {
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // A step must not start if the controller has disconnected while it waited for the lock.
        let gone = || self.gone.load(Ordering::SeqCst);
        if gone() {
            return Err(Response::Failed { text: "the connection to the controller is lost".into() });
        }
        if held.is_none() {
            let holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let patience = LockTimeouts { other: OTHER_RUN, own: Duration::from_secs(timeout_s).max(OTHER_RUN) };
            match HostLock::acquire(&self.work.lock_path(), &holder, patience, &gone) {
                Ok(lock) => *held = Some(lock),
                Err(lock::LockError::Held { holder, finishing }) => return Err(Response::Locked { holder, finishing }),
                Err(error) => return Err(Response::Failed { text: error_chain(&error) }),
            }
        }
        Ok(())
    }
}

fn answered(fetched: Fetched) -> Response {
    let Fetched { missing, reasons, still_coming } = fetched;
    Response::Fetched { missing: missing.into_iter().collect(), reasons, still_coming }
}

fn next_request(frames: &Frames, silence: Duration) -> Result<Option<RequestMessage>, WireError> {
    match next_frame(frames, silence)? {
        Some(Frame::Message(body)) => frame::parse(&body).map(Some),
        Some(Frame::Data(_)) => Err(WireError::Kind(1)),
        None => Ok(None),
    }
}
