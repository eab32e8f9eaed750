//! Ctrl-C: once to stop cleanly, twice to end at once.

use std::convert::Infallible;

use kubexm_engine::EventSink;
use kubexm_session::events::warning;
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Does the work while signals are watched: the first SIGINT or SIGTERM cancels the token, the second ends the program.
pub async fn watched<T, E>(
    events: &dyn EventSink,
    token: &CancellationToken,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure>
where
    Failure: From<E>,
{
    let interrupts = listen(SignalKind::interrupt())?;
    let terminations = listen(SignalKind::terminate())?;
    tokio::select! {
        ended = work => Ok(ended?),
        never = watch(interrupts, terminations, events, token) => match never {},
    }
}

/// Cancels the token with the first SIGINT or SIGTERM; listens from the moment of the call, within a runtime.
pub fn cancels(token: CancellationToken) -> Result<impl Future<Output = ()>, Failure> {
    let (mut interrupts, mut terminations) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
        }
        token.cancel();
    })
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::new(ExitCode::Internal, format!("cannot listen for signals: {error}")))
}

async fn watch(
    mut interrupts: Signal,
    mut terminations: Signal,
    events: &dyn EventSink,
    token: &CancellationToken,
) -> Infallible {
    loop {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
        }
        if token.is_cancelled() {
            warning(events, "interrupted twice; what runs on the hosts continues to run");
            at_once();
        }
        token.cancel();
        warning(events, "interrupted: what has started is finished first; interrupt again to end the program at once");
    }
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the operator asked twice; the journal is consistent at any time"
)]
fn at_once() -> ! {
    std::process::exit(i32::from(ExitCode::Declined.code()))
}
