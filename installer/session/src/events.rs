//! Events that a session reports.

use kubexm_engine::EventSink;
use kubexm_engine::events::event;
use kubexm_spec::event::EventKind;

/// A phase of the work starts.
pub fn phase(events: &dyn EventSink, name: &str) {
    events.emit(event(EventKind::Phase { name: name.to_owned() }));
}

/// Information for the operator.
pub fn note(events: &dyn EventSink, text: impl Into<String>) {
    events.emit(event(EventKind::Note { text: text.into() }));
}

/// A problem that does not stop the work.
pub fn warning(events: &dyn EventSink, text: impl Into<String>) {
    events.emit(event(EventKind::Warning { text: text.into() }));
}
