//! Event sinks. One stream with many readers: screen, JSON lines, tests.

use std::sync::{Arc, Mutex, PoisonError};

use kubexm_spec::event::{Event, EventKind, SCHEMA};

use crate::clock;

/// Receives events. Called from the engine's own task: a slow sink must buffer. It may drop [`EventKind::Progress`],
/// but nothing else.
pub trait EventSink: Send + Sync {
    /// Receives one event.
    fn emit(&self, event: Event);
}

/// An event with the current time.
pub fn event(kind: EventKind) -> Event {
    Event { schema: SCHEMA.to_owned(), time: clock::now(), kind }
}

/// Passes every event to several sinks, in order.
#[derive(Clone, Default)]
pub struct FanOut(Vec<Arc<dyn EventSink>>);

impl FanOut {
    /// Passes events to these sinks.
    pub fn new(sinks: Vec<Arc<dyn EventSink>>) -> Self {
        Self(sinks)
    }
}

impl EventSink for FanOut {
    fn emit(&self, event: Event) {
        for sink in &self.0 {
            sink.emit(event.clone());
        }
    }
}

/// Discards every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl EventSink for Silent {
    fn emit(&self, _: Event) {}
}

/// Stores every event, for tests and for results that are shown at the end.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<Event>>);

impl Recorder {
    /// The events so far.
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl EventSink for Recorder {
    fn emit(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}
