//! Ctrl-C, SIGTERM and SIGHUP (the terminal is gone): the program ends at once, and says so as it says every end.

use std::sync::Arc;
use std::time::Duration;

use kubexm_spec::ExitCode;
use kubexm_terminal::Display;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long the end is written for a reader who has stopped to read.
const PATIENCE: Duration = Duration::from_secs(5);

const TEXT: &str =
    "interrupted: no incomplete file is under its final name, and what was fetched is kept for the next run";

/// Watches from a thread of its own. No work is waited for: what is fetched or written continues from a kill at any moment.
pub fn watch(display: &Arc<Display>) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let entered = runtime.enter();
    let mut interrupts = listen(SignalKind::interrupt())?;
    let mut terminations = listen(SignalKind::terminate())?;
    let mut hangups = listen(SignalKind::hangup())?;
    drop(entered);
    let display = Arc::clone(display);
    let watching = move || {
        runtime.block_on(async {
            tokio::select! {
                () = next(&mut interrupts) => {}
                () = next(&mut terminations) => {}
                () = next(&mut hangups) => {}
            }
            // More signals change nothing: `timeout` sends two at once.
            let telling = tokio::task::spawn_blocking(move || display.interrupt(ExitCode::Declined, TEXT));
            match tokio::time::timeout(PATIENCE, telling).await {
                // The program has reported its end already: it is over.
                Ok(Ok(false)) => {}
                _ => end(),
            }
        });
    };
    std::thread::Builder::new().name("signals".into()).spawn(watching).map(drop)
}

/// None where whoever started the program has it ignored, as a shell does for what it starts in the background.
fn listen(kind: SignalKind) -> std::io::Result<Option<Signal>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    if ignored >> (kind.as_raw_value() - 1) & 1 == 1 {
        return Ok(None);
    }
    signal(kind).map(Some)
}

async fn next(signals: &mut Option<Signal>) {
    match signals {
        Some(signals) => drop(signals.recv().await),
        None => std::future::pending().await,
    }
}

#[expect(clippy::exit, clippy::disallowed_methods, reason = "asked for; whatever is open can be left at any moment")]
fn end() -> ! {
    std::process::exit(i32::from(ExitCode::Declined.code()))
}
