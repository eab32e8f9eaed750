//! The cases.

mod before;
mod edited;
mod interrupted;

use kubexm_spec::ExitCode;

use super::case::{Act, Case, Kept, nothing};

/// A create fails in its last step and is rolled back.
const ROLLED_BACK: Case = Case {
    name: "",
    hosts: 1,
    start: nothing,
    act: Act::FailedCreate,
    meanwhile: nothing,
    later: &[],
    ends: (ExitCode::RunFailed, "RolledBack"),
    kept: Kept::Everything,
};
/// The cluster is created and reset.
const RESET: Case = Case { act: Act::Reset, ends: (ExitCode::Ok, "reset"), ..ROLLED_BACK };
/// A create, and preflight before it, refuse to begin.
const REFUSED: Case = Case { act: Act::Create, ..ROLLED_BACK };

/// Each case is a test of its name.
macro_rules! cases {
    ($($name:ident: $case:expr;)*) => {
        pub const CASES: &[Case] = &[$(Case { name: stringify!($name), ..$case }),*];

        mod each {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                let case = super::CASES.iter().find(|case| case.name == stringify!($name)).expect("a case");
                case.run().await;
            })*
        }
    };
}

use cases;

pub fn all() -> impl Iterator<Item = &'static Case> {
    [before::CASES, edited::CASES, interrupted::CASES].into_iter().flatten()
}
