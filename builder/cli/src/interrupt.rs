//! Ctrl-C and SIGTERM: the program ends at once, and says so as it says every end.

use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Watches from a thread of its own. No work is waited for: what is fetched or written goes on from a kill at any moment.
pub fn watch(display: &'static Display) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    drop(entered);
    let watching = move || {
        runtime.block_on(async {
            for signals in 1_u32.. {
                tokio::select! {
                    _ = interrupts.recv() => {}
                    _ = terminations.recv() => {}
                }
                // The second one does not wait for a reader of standard output who has gone to sleep.
                if signals > 1 || std::thread::Builder::new().spawn(|| tell(display)).is_err() {
                    end();
                }
            }
        });
    };
    std::thread::Builder::new().name("signals".into()).spawn(watching).map(drop)
}

fn tell(display: &Display) {
    let text =
        "interrupted; no file is half written under its own name, and the same command goes on with what was fetched";
    let _ = kubexm_terminal::finish(display, Err(Failure::new(ExitCode::Declined, text)));
    end();
}

#[expect(clippy::exit, clippy::disallowed_methods, reason = "asked for; whatever is open can be left at any moment")]
fn end() -> ! {
    std::process::exit(i32::from(ExitCode::Declined.code()))
}
