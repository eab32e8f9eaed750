//! The engine's events on the display.

use kubexm_engine::EventSink;
use kubexm_spec::event::Event;
use kubexm_terminal::Display;

/// Shows every event.
#[derive(Clone, Copy)]
pub struct Shown<'a>(pub &'a Display);

impl EventSink for Shown<'_> {
    fn emit(&self, event: Event) {
        self.0.show(event);
    }
}
