//! `kubexm-bundle`: builds, verifies and shows bundles, where there is internet.

mod commands;
mod home;

use clap::Parser;

fn main() -> std::process::ExitCode {
    // The one TLS backend; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = commands::Cli::parse_from(commands::without_secrets(std::env::args_os()));
    let display = kubexm_terminal::Display::new(kubexm_terminal::Mode::choose(cli.verb.json()));
    // For the whole of the program: transfers tell from their own threads for whom they wait.
    let display: &'static kubexm_terminal::Display = Box::leak(Box::new(display));
    let result = commands::run(cli, display);
    kubexm_terminal::finish(display, result)
}
