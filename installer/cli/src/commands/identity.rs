//! `kubexm-install identity`.

use kubexm_terminal::{Display, Failure};
use serde_json::json;

use crate::terminal::home;

/// Print the public key of this home, for spec.operators in cluster.yaml
///
/// The CA of a cluster's registry is on its control planes, sealed for the home that created it and for those of
/// spec.operators. The secret key that opens it is $KUBEXM_HOME/identity, made the first time it is needed: back it up, and put
/// it on no host. It is in age's format; a key for an emergency, made by age-keygen and kept elsewhere, is one more operator,
/// and a line of that file when it is needed.
///
/// Examples:
///   kubexm-install identity          # on the second operator's machine; add what it prints to cluster.yaml:
///                                    # spec: {operators: [{name: bob, recipient: age1...}]}
///   kubexm-install create --bundle site.tar.zst -f cluster.yaml   # on the first operator's machine; then on the second's
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let home = home()?;
    let recipient = home.recipient()?;
    match args.json {
        true => display.answer(&json!({"recipient": recipient, "identity": home.identity()}).to_string()),
        false => display.answer(&recipient),
    }
    Ok(())
}
