//! Events that a session reports.

use kubexm_engine::EventSink;
use kubexm_engine::events::event;
use kubexm_spec::event::EventKind;

/// A part of the work begins.
pub fn phase(events: &dyn EventSink, name: &str) {
    events.emit(event(EventKind::Phase { name: name.to_owned() }));
}

/// Something worth knowing.
pub fn note(events: &dyn EventSink, text: impl Into<String>) {
    events.emit(event(EventKind::Note { text: text.into() }));
}

/// Something that may hurt later.
pub fn warning(events: &dyn EventSink, text: impl Into<String>) {
    events.emit(event(EventKind::Warning { text: text.into() }));
}
