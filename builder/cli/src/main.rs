//! `kubexm-bundle`: builds, verifies and shows bundles, where there is internet.

mod args;
mod commands;
mod context;
mod environment;
mod interrupt;

use std::sync::Arc;

use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};

fn main() -> std::process::ExitCode {
    // The one TLS backend; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (arguments, whole) = args::without_secrets(std::env::args_os());
    let cli = match commands::Cli::read(&arguments) {
        Ok(cli) => cli,
        Err(error) => return kubexm_terminal::end_of_arguments(&error, &arguments),
    };
    let display = Arc::new(Display::new(Mode::choose(cli.verb.json())));
    let watched = interrupt::watch(&display)
        .map_err(|error| Failure::new(ExitCode::Internal, format!("cannot listen for signals: {error}")));
    let result = watched.and_then(|()| commands::run(cli, whole, &display));
    kubexm_terminal::finish(&display, result)
}
