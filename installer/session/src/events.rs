//! Events that a session reports.

use kubexm_engine::EventSink;
use kubexm_engine::events::event;
use kubexm_spec::event::EventKind;
use kubexm_spec::on_one_line;

/// A phase of the work starts.
pub fn phase(events: &dyn EventSink, name: &str) {
    events.emit(event(EventKind::Phase { name: name.to_owned() }));
}

/// Information for the operator, on one line whatever hosts have put into it.
pub fn note(events: &dyn EventSink, text: impl Into<String>) {
    events.emit(event(EventKind::Note { text: on_one_line(&text.into()) }));
}

/// A problem that does not stop the work; on one line as well.
pub fn warning(events: &dyn EventSink, text: impl Into<String>) {
    events.emit(event(EventKind::Warning { text: on_one_line(&text.into()) }));
}
