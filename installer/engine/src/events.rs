//! Where events go. One stream, many readers: screen, JSON lines, tests.

use std::sync::{Arc, Mutex, PoisonError};

use kubexm_spec::event::{Event, EventKind, SCHEMA};

use crate::clock;

/// Takes events. Called from the engine's own task: a reader that is slow buffers for itself; it may drop
/// [`EventKind::Progress`], and nothing else.
pub trait EventSink: Send + Sync {
    /// Takes one event.
    fn emit(&self, event: Event);
}

/// An event that happens now.
pub fn event(kind: EventKind) -> Event {
    Event { schema: SCHEMA.to_owned(), time: clock::now(), kind }
}

/// Hands every event to several sinks, in order.
#[derive(Clone, Default)]
pub struct FanOut(Vec<Arc<dyn EventSink>>);

impl FanOut {
    /// A fan-out over these sinks.
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

/// Takes everything and keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl EventSink for Silent {
    fn emit(&self, _: Event) {}
}

/// Keeps every event, for tests and for results that are shown at the end.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<Event>>);

impl Recorder {
    /// What came so far.
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl EventSink for Recorder {
    fn emit(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}
