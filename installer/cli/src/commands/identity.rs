//! `kubexm-install identity`.

use kubexm_session::Session;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure};
use serde_json::json;

use crate::terminal::Shell;

/// Print the public key of this home, for spec.operators in cluster.yaml
///
/// The CA of a cluster's registry is on its control planes, sealed for the home that created it and for those of
/// spec.operators. The secret key that opens it is $KUBEXM_HOME/identity, made the first time it is needed: back it up, and put
/// it on no host. It is in age's format; a key for an emergency, made by age-keygen and kept elsewhere, is one more operator,
/// and a line of that file when it is needed. With --encrypt it is encrypted with a passphrase (as by `age -p`), which every
/// command that needs it then asks for, or reads from the file that $KUBEXM_PASSPHRASE_FILE names.
///
/// Examples:
///   kubexm-install identity          # on the second operator's machine
///   # what it prints goes into cluster.yaml, below spec:
///   #   operators: [{name: bob, recipient: age1...}]
///   # then on the first operator's machine, and after that on the second's:
///   kubexm-install create --bundle site.tar.zst -f cluster.yaml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Encrypt $KUBEXM_HOME/identity with a passphrase
    #[arg(long)]
    encrypt: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::looking(display)?;
    let Session { home, credentials, .. } = shell.session();
    let recipient = match args.encrypt {
        true => {
            let recipient = home.encrypt_identity(credentials)?;
            let text =
                format!("{} is encrypted now; earlier copies and backups of it are not", home.identity().display());
            display.emit(EventKind::Note { text });
            recipient
        }
        false => home.recipient(credentials)?,
    };
    match args.json {
        true => display.answer(
            &json!({"schema": "kubexm.io/identity/v1", "recipient": recipient, "identity": home.identity()})
                .to_string(),
        ),
        false => display.answer(&recipient),
    }
    Ok(())
}
