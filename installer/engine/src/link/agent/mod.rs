//! The agent: this program on a node, serving one controller over its standard input and output.
//!
//! [`serve`] answers requests that look at or change the node; [`serve_store`], on a channel of its own, takes blobs.
//! Both run on plain threads, and only what waits for the network (blobs of depots, the mesh) has a runtime of its own
//! there. A request runs on a thread of its own, so that a `Ping` is
//! answered while a step takes minutes. When the channel closes, or nothing was heard for [`SILENCE`], no further
//! request is taken, the steps that run are finished and written to the ledger, and the agent ends.

mod channel;
pub mod fetch;
pub(crate) mod lock;
mod mesh;
mod store;
mod under_way;
mod work;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use kubexm_spec::error_chain;

use super::wire::{Answer, Ask, Frame, Request, Secret, WireError, frame};
use super::{Change, Fetched};
pub use channel::AgentError;
use channel::{Frames, Out, clock_ms, hello, next_frame, not_here, read_frames};
use lock::{HostLock, Patience, Presence};
pub use store::serve_store;
use under_way::{Place, UnderWay};
pub use work::{LOCK_PATH, PRESENT_PATH, Work};

/// A controller that is there pings every few seconds. When nothing came for this long it is gone, even if the
/// connection still seems to stand: sshd notices a lost network only after hours.
pub const SILENCE: Duration = Duration::from_secs(60);
/// Requests that may run at once.
const MOST_AT_ONCE: usize = 64;
/// How long a step waits for a host that another live run holds.
const OTHER_RUN: Duration = Duration::from_secs(5);

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
        under_way: UnderWay::default(),
        work,
    });
    let frames = read_frames(stdin)?;
    // Before the first answer: from then on a controller counts on the program.
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
            Ask::Hello { protocol, ref holder, .. } => {
                agent.holder.lock().unwrap_or_else(PoisonError::into_inner).clone_from(holder);
                agent.out.answer(request.id, hello(protocol));
            }
            Ask::Ping => agent.out.answer(request.id, Answer::Pong { clock_ms: clock_ms() }),
            Ask::Bye => {
                bye = Some(request.id);
                break Ok(());
            }
            ask if running.len() < MOST_AT_ONCE => {
                let agent = Arc::clone(&agent);
                let thread = std::thread::Builder::new().name("request".into());
                let place = match ask {
                    Ask::Converge { .. } | Ask::Fetch { .. } => agent.under_way.change(),
                    _ => agent.under_way.other(),
                };
                let work = move || {
                    agent.out.answer(request.id, agent.answer(ask, &place));
                    // Told before what waits for it goes on, so that answers come in that order too.
                    drop(place);
                };
                running.push(thread.spawn(work).map_err(AgentError::Thread)?);
            }
            _ => {
                let text = format!("more than {MOST_AT_ONCE} requests at once");
                agent.out.answer(request.id, Answer::Failed { text });
            }
        }
    };
    agent.gone.store(true, Ordering::SeqCst);
    if let Some(lock) = &*agent.lock.lock().unwrap_or_else(PoisonError::into_inner) {
        lock.finishing();
    }
    for thread in running {
        // A thread that panicked has nothing more to say; its answer never comes and the controller asks again.
        let _ = thread.join();
    }
    if let Some(id) = bye {
        agent.out.answer(id, Answer::Bye);
    }
    ended
}

struct Agent<W> {
    out: Out,
    lock: Mutex<Option<HostLock>>,
    holder: Mutex<String>,
    gone: AtomicBool,
    listening: Mutex<Option<mesh::Listening>>,
    under_way: UnderWay,
    work: W,
}

impl<W: Work> Agent<W> {
    fn answer(&self, ask: Ask, place: &Place) -> Answer {
        let answered = match ask {
            Ask::Facts { host } => self.work.facts(&host).map(|facts| Answer::Facts { facts: Box::new(facts) }),
            Ask::Observe { step, texts, slots } => match self.hold(step.timeout_s) {
                Err(locked) => return locked,
                Ok(()) => self.work.observe(&step, texts, slots.into_values()).map(|found| Answer::Observed { found }),
            },
            Ask::Survey { steps, texts, slots } => {
                match self.hold(steps.iter().map(|step| step.timeout_s).max().unwrap_or_default()) {
                    Err(locked) => return locked,
                    Ok(()) => {
                        let surveyed = self.work.survey(&steps, texts, slots.into_values());
                        surveyed.map(|survey| Answer::Surveyed { survey })
                    }
                }
            }
            Ask::Converge { step, texts, slots, run, sequence, before } => match self.hold(step.timeout_s) {
                Err(locked) => return locked,
                Ok(()) => {
                    let change = Change { run: &run, sequence, before: &before };
                    let work = || self.work.converge(&step, texts, slots.into_values(), change);
                    self.under_way.alone(&step.id, work).map(|()| Answer::Converged)
                }
            },
            Ask::Undo { step, texts, run, sequence, before, wave } => match self.hold(step.timeout_s) {
                Err(locked) => return locked,
                Ok(()) => {
                    let change = Change { run: &run, sequence, before: &before };
                    let work = || self.work.undo(&step, texts, change, wave);
                    place.wait_for_earlier();
                    self.under_way.alone(&step.id, work).map(|()| Answer::Undone)
                }
            },
            Ask::Provide { provider } => match self.hold(OTHER_RUN.as_secs()) {
                Err(locked) => return locked,
                Ok(()) => self.work.provide(&provider).map(|value| Answer::Provided { value: Secret(value) }),
            },
            Ask::Ledger => self.work.ledger().map(|records| Answer::Ledger { records }),
            Ask::Fetch { blobs, depots } => {
                let gone = || self.gone.load(Ordering::SeqCst);
                let bytes = blobs.values().fold(0_u64, |sum, size| sum.saturating_add(*size));
                let fetched =
                    fetch::fetch(fetch::Limits::of(bytes, &depots), &self.work.store_path(), &blobs, &depots, gone);
                fetched.map(|Fetched { missing, reasons }| Answer::Fetched {
                    missing: missing.into_iter().collect(),
                    reasons,
                })
            }
            Ask::Listen { ports } => {
                let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
                // The old ones are closed first: some of the same ports may be wanted again.
                *listening = None;
                mesh::Listening::on(&ports).map(|on| *listening = on).map(|()| Answer::Listening)
            }
            Ask::Dial { dials } => mesh::dial(dials).map(|dialed| Answer::Dialed { dialed }),
            Ask::Probe { probe } => self.work.probe(&probe).map(|answer| Answer::Probed { answer }),
            Ask::StoreMissing { blobs } => store::missing(&self.work, &blobs),
            Ask::AdminKubeconfig => {
                self.work.admin_kubeconfig().map(|file| Answer::AdminKubeconfig { file: Secret(file) })
            }
            Ask::Evidence => self.work.evidence().map(|files| Answer::Evidence { files }),
            Ask::StepLog { run, step } => self.work.step_log(&run, &step).map(|text| Answer::StepLog { text }),
            Ask::StorePut { .. } => return not_here("blobs go over a store channel"),
            Ask::Hello { .. } | Ask::Ping | Ask::Bye => return not_here("this is answered elsewhere"),
        };
        answered.unwrap_or_else(|text| Answer::Failed { text })
    }

    /// Holds the host from the first step on until the agent ends.
    fn hold(&self, timeout_s: u64) -> Result<(), Answer> {
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // A step that waited for a host until its controller went away must not begin.
        let gone = || self.gone.load(Ordering::SeqCst);
        if gone() {
            return Err(Answer::Failed { text: "the controller is gone".into() });
        }
        if held.is_none() {
            let holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let patience = Patience { other: OTHER_RUN, own: Duration::from_secs(timeout_s).max(OTHER_RUN) };
            match HostLock::acquire(&self.work.lock_path(), &holder, patience, &gone) {
                Ok(lock) => *held = Some(lock),
                Err(lock::LockError::Held { holder }) => return Err(Answer::Locked { holder }),
                Err(error) => return Err(Answer::Failed { text: error_chain(&error) }),
            }
        }
        Ok(())
    }
}

fn next_request(frames: &Frames, silence: Duration) -> Result<Option<Request>, WireError> {
    match next_frame(frames, silence)? {
        Some(Frame::Message(body)) => frame::parse(&body).map(Some),
        Some(Frame::Data(_)) => Err(WireError::Kind(1)),
        None => Ok(None),
    }
}
