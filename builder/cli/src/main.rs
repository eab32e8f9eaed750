//! `kubexm-bundle`: builds, verifies and shows bundles, where there is internet.

mod commands;
mod home;
mod interrupt;

use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;

fn main() -> std::process::ExitCode {
    // The one TLS backend; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = commands::Cli::read(commands::without_secrets(std::env::args_os()));
    let display = kubexm_terminal::Display::new(kubexm_terminal::Mode::choose(cli.verb.json()));
    // For the whole of the program: transfers tell from their own threads for whom they wait.
    let display: &'static kubexm_terminal::Display = Box::leak(Box::new(display));
    let watched = interrupt::watch(display)
        .map_err(|error| Failure::new(ExitCode::Internal, format!("cannot listen for signals: {error}")));
    let result = watched.and_then(|()| commands::run(cli, display));
    kubexm_terminal::finish(display, result)
}
