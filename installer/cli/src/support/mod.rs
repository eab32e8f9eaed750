//! What every verb needs of the machine it runs on: folders, files, events, signals.

pub mod collection;
pub mod events;
pub mod failures;
pub mod files;
pub mod home;
pub mod interrupt;
pub mod output;
pub mod redact;
pub mod secrets;
pub mod start;
