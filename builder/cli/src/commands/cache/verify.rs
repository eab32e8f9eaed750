//! `kubexm-bundle cache verify`.

use std::path::PathBuf;

use kubexm_builder::verbs::cache::verify;
use kubexm_spec::{Digest, counted, counted_of};
use kubexm_terminal::{Failure, bytes};

use crate::context::Context;

/// Hash every blob again, and remove those that are damaged
///
/// What was removed is fetched anew by the next build that needs it. Exit code 44 when something was damaged.
///
/// Examples:
///   kubexm-bundle cache verify
///   kubexm-bundle cache verify --cache /srv/kubexm/cache --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Folder of the cache [default: $KUBEXM_HOME/cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let verified = verify(context.session, args.cache.as_deref())?;
    context.answer(&verified, |verified| {
        let whole = counted(verified.whole.count as u64, "blob");
        let strange = verified.strange.iter().map(|path| format!("{} is no blob; it was left alone", path.display()));
        std::iter::once(format!("OK: {whole} ({})", bytes(verified.whole.bytes))).chain(strange).collect()
    })?;
    context.end(verified.code(), || {
        let all: Vec<String> = verified.damaged.iter().map(Digest::to_string).collect();
        format!(
            "{} damaged, and removed: {}; the next build fetches what it needs of them anew; look at the disk",
            counted_of(&all, "blob"),
            all.join(", ")
        )
    })
}
