//! Whether the operator says yes.

use std::io::IsTerminal;

use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};

use crate::site::trust::Provenance;
use crate::support::events::{self, Shown};

/// How a yes is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Given with `-y`.
    Given,
    /// A person is there to be asked.
    Ask,
}

impl Consent {
    /// Refused at once where nobody could be asked later.
    pub fn from_args(yes: bool, display: &Display) -> Result<Self, Failure> {
        match yes {
            true => Ok(Self::Given),
            false if display.mode() != Mode::Json && somebody_is_there() => Ok(Self::Ask),
            false => Err(Failure::new(
                ExitCode::NeedsYes,
                "this changes hosts, and there is no terminal to ask at: look with `kubexm-install plan create`, then \
                 say yes with -y",
            )),
        }
    }

    /// Says who vouches for the bundle, where one takes part, and asks. The summary stands on the screen already.
    pub async fn have(
        self,
        question: &'static str,
        provenance: Option<&Provenance>,
        display: &Display,
    ) -> Result<(), Failure> {
        let shown = Shown(display);
        match provenance {
            Some(signed) if signed.is_signed() => events::note(&shown, format!("the bundle is {signed}")),
            Some(unsigned) => events::warning(&shown, format!("the bundle is {unsigned}")),
            None => events::note(&shown, "no bundle takes part, and cluster.yaml is your own"),
        }
        if self == Self::Given {
            return Ok(());
        }
        display.clear();
        let ask = move || dialoguer::Confirm::new().with_prompt(question).default(false).interact();
        match tokio::task::spawn_blocking(ask).await {
            Ok(Ok(true)) => Ok(()),
            // Ctrl-C at the question is a no.
            Ok(Ok(false) | Err(_)) | Err(_) => Err(Failure::new(ExitCode::Declined, "declined; nothing was changed")),
        }
    }
}

/// Whether a person can be asked.
pub fn somebody_is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}
