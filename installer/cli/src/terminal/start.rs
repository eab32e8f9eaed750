//! Setup of the process.

use std::io::IsTerminal;

use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

/// Program and version, for journals.
pub const TOOL: &str = concat!("kubexm-install ", env!("CARGO_PKG_VERSION"));

/// The TLS provider of every connection of this process.
pub fn tls() {
    // A second call finds the same provider in place.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Log lines on standard error: what `RUST_LOG` says, else `level`.
pub fn logs(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // A second call changes nothing.
    let _ = subscriber.try_init();
}

/// Threads for everything that waits. Two at least: connections are kept alive while a question is on the screen.
pub fn runtime() -> Result<Runtime, Failure> {
    let threads = std::thread::available_parallelism().map_or(2, |count| count.get().max(2));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(ExitCode::Internal, format!("cannot start worker threads: {error}")))
}

/// The user, machine and process, shown to anybody who finds a host or a cluster locked.
pub fn this_process() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = match machine.trim() {
        "" => "an unnamed machine",
        name => name,
    };
    let user = ["SUDO_USER", "USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let user = user.filter(|user| !user.is_empty()).map(|user| format!("{user}@")).next().unwrap_or_default();
    format!("{user}{machine}, process {}", std::process::id())
}
