//! A session of this program: its questions, secrets and events are the terminal's, its folders the environment's.

use std::path::PathBuf;

use kubexm_engine::EventSink;
use kubexm_engine::events::Silent;
use kubexm_session::{Controller, Home, Mounted, Session, SessionError, Ssh, SystemClock};
use kubexm_terminal::{Display, Failure, Mode};
use tokio_util::sync::CancellationToken;

use super::consent::Terminal;
use super::events::Shown;
use super::home::home;
use super::secrets::Secrets;
use super::{interrupt, start};

/// What a session borrows.
pub struct Shell<'d> {
    home: Home,
    events: Box<dyn EventSink + 'd>,
    confirm: Terminal<'d>,
    secrets: Secrets,
    controller: Controller,
    cancel: CancellationToken,
}

impl<'d> Shell<'d> {
    /// For a verb that changes hosts. It calls [`Self::check_can_confirm`] before the first host is contacted.
    pub fn changing(display: &'d Display, yes: bool) -> Result<Self, Failure> {
        Self::new(Terminal::changing(display, yes), Box::new(Shown(display)))
    }

    /// Fails (exit code 11) where nobody could be asked later. Called once what was typed is known to be right, so that what is
    /// wrong with it is reported first, and before anything that takes long.
    pub fn check_can_confirm(&self) -> Result<(), Failure> {
        self.confirm.check_can_confirm()
    }

    /// For a verb that continues what was confirmed before.
    pub fn resuming(display: &'d Display) -> Result<Self, Failure> {
        Self::new(Terminal::new(display), Box::new(Shown(display)))
    }

    /// For a verb that only looks, and whose answer is one document for machines.
    pub fn looking(display: &'d Display) -> Result<Self, Failure> {
        let events: Box<dyn EventSink + 'd> = match display.mode() {
            Mode::Json => Box::new(Silent),
            Mode::Terminal | Mode::Plain => Box::new(Shown(display)),
        };
        Self::new(Terminal::new(display), events)
    }

    fn new(confirm: Terminal<'d>, events: Box<dyn EventSink + 'd>) -> Result<Self, Failure> {
        let controller = Controller {
            tool: start::TOOL.to_owned(),
            name: start::this_process(),
            agent: PathBuf::from("/proc/self/exe"),
        };
        let (secrets, cancel) = (Secrets, CancellationToken::new());
        Ok(Self { home: home()?, events, confirm, secrets, controller, cancel })
    }

    /// Takes events.
    pub fn events(&self) -> &dyn EventSink {
        &*self.events
    }

    /// The session.
    pub fn session(&self) -> Session<'_> {
        Session {
            home: &self.home,
            events: &*self.events,
            confirm: &self.confirm,
            credentials: &self.secrets,
            connector: &Ssh,
            clock: &SystemClock,
            file_systems: &Mounted,
            controller: &self.controller,
            cancel: self.cancel.clone(),
        }
    }

    /// Does the work, and watches signals meanwhile.
    pub fn wait<T>(&self, work: impl Future<Output = Result<T, SessionError>>) -> Result<T, Failure> {
        start::runtime()?.block_on(interrupt::watched(&*self.events, &self.cancel, work))
    }

    /// Does work of this thread, which asks the session whether it was interrupted, while the first SIGINT or SIGTERM is listened for.
    pub fn work<T>(&self, work: impl FnOnce() -> Result<T, SessionError>) -> Result<T, Failure> {
        let (runtime, token) = (start::runtime()?, self.cancel.clone());
        let listening = runtime.enter();
        runtime.spawn(interrupt::cancels(token)?);
        drop(listening);
        Ok(work()?)
    }
}
