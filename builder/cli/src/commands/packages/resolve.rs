//! `kubexm-bundle packages resolve`.

use kubexm_builder::session::{Answered, Session};
use kubexm_packages::solve::{Because, Chosen, Pool, Root, Unsolvable};
use kubexm_spec::ExitCode;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure, Mode, bytes};
use serde_json::{Value, json};

use super::pool::{self, From};

/// Say which packages another operating system needs for some roots, from where, and why each
///
/// The repositories of that system are read and their signatures checked by the vendor's keys;
/// nothing of this machine's own packages counts, and no tool of that system is needed. The answer
/// is self-sufficient: it holds for a host that has nothing; with --installed it is what one host
/// lacks, and nothing of that host is removed or made older. Exit code 45 when there is no such set;
/// what is in its way is reported.
///
/// Examples:
///   kubexm-bundle packages resolve --os debian-12 --arch arm64 socat conntrack
///   kubexm-bundle packages resolve --os ubuntu-22.04 --mirror http://mirror.lan socat
///   kubexm-bundle packages resolve --os rocky-9 --json ipset | jq -r '.packages[].url'
///   kubexm-bundle packages resolve --os rocky-9 --mirror /mnt/iso ipset    # the vendor's DVD
///   ssh node1 cat /var/lib/dpkg/status > node1.status
///   kubexm-bundle packages resolve --os debian-12 --installed node1.status socat
///   ssh node2 "$(kubexm-bundle packages query --os rocky-9)" > node2.txt
///   kubexm-bundle packages resolve --os rocky-9 --installed node2.txt socat
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Packages, or what packages provide; name=version for one version
    #[arg(value_name = "PACKAGE", required = true, value_parser = pool::root)]
    roots: Vec<Root>,
    #[command(flatten)]
    from: From,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let resolved = args.from.resolve(session, &args.roots)?;
    let json = display.mode() == Mode::Json;
    if !json {
        tell(&resolved, display);
    }
    let closure = match &resolved.closure {
        Ok(closure) => closure,
        Err(unsolvable) if json => {
            let more = json!({ "solvable": false, "reasons": reasons(unsolvable) });
            display.answer(&document(args, &resolved, more).to_string());
            return Err(Failure::silent(ExitCode::NoSource));
        }
        Err(unsolvable) => return Err(refused(unsolvable)),
    };
    // What an index that nobody signs says of sizes may be anything.
    let sizes = closure.packages.iter().map(|chosen| resolved.pool.package(chosen.package).size);
    let size = sizes.fold(0, u64::saturating_add);
    if json {
        let packages: Vec<Value> = closure.packages.iter().map(|chosen| value(&resolved.pool, chosen)).collect();
        let more = json!({ "solvable": true, "size": size, "packages": packages });
        display.answer(&document(args, &resolved, more).to_string());
        return Ok(());
    }
    for chosen in &closure.packages {
        let place = chosen.replaces.as_ref().map(|old| format!("; takes the place of {old}")).unwrap_or_default();
        display.answer(&format!("{}  ({}{place})", resolved.pool.package(chosen.package), chosen.because));
    }
    display.answer(&format!("{} packages, {}", closure.packages.len(), bytes(size)));
    Ok(())
}

/// Why there is no answer, for a machine.
pub fn reasons(unsolvable: &Unsolvable) -> Vec<String> {
    unsolvable.reasons.iter().map(ToString::to_string).collect()
}

/// Why there is no answer, a reason a line.
pub fn refused(unsolvable: &Unsolvable) -> Failure {
    let lines: Vec<String> = reasons(unsolvable).iter().map(|reason| format!("\n  {reason}")).collect();
    Failure::new(ExitCode::NoSource, format!("no set of packages satisfies all dependencies:{}", lines.concat()))
}

/// What should be known before the answer.
pub fn tell(resolved: &Answered, display: &Display) {
    for text in &resolved.notes {
        display.emit(EventKind::Note { text: text.clone() });
    }
}

fn value(pool: &Pool, chosen: &Chosen) -> Value {
    let package = pool.package(chosen.package);
    json!({
        "name": package.name, "version": package.version, "arch": package.arch, "url": pool.url(package),
        "size": package.size, "sha256": package.digest.hex(), "repository": pool.repo(package).map(|repo| &repo.id),
        "module": package.module, "because": because(&chosen.because), "replaces": chosen.replaces,
    })
}

/// Why, for a machine: who needs it and in which words; of a root, its name.
pub fn because(because: &Because) -> Value {
    match because {
        Because::Root(root) => json!({ "root": root }),
        Because::Needed { by, wants } => json!({ "neededBy": by, "wants": wants }),
        Because::InStep { wants } => json!({ "inStepWith": wants }),
    }
}

fn document(args: &Args, resolved: &Answered, mut more: Value) -> Value {
    let repositories: Vec<Value> = resolved
        .snapshots
        .iter()
        .map(|one| json!({ "id": one.repository, "digest": one.digest, "date": one.date, "signed": one.signed }))
        .collect();
    more["schema"] = "kubexm.io/packages-resolve/v1".into();
    more["os"] = resolved.profile.name.as_str().into();
    more["arch"] = args.from.arch.as_str().into();
    more["repositories"] = repositories.into();
    more["notes"] = json!(resolved.notes);
    more
}
