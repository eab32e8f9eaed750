//! The terminal, the environment and the process: what a session is given of this machine.

mod consent;
mod events;
mod home;
pub mod interrupt;
pub mod logins;
pub mod output;
pub mod s3;
mod secrets;
mod shell;
pub mod start;

pub use events::Shown;
pub use home::home;
pub use shell::Shell;
