//! `kubexm-bundle packages why`.

use kubexm_builder::session::Session;
use kubexm_packages::solve::{Root, why};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use super::pool::{self, From};
use super::resolve::{because, reasons, refused, tell};

/// Say why a package is needed for some roots: the way to it from what was asked for, and all that need it
///
/// The package is a name; what follows it are the roots, as `packages resolve` takes them.
///
/// Examples:
///   kubexm-bundle packages why libwrap0 socat conntrack --os debian-12
///   kubexm-bundle packages why libssl3 chrony --os debian-12 --arch arm64 --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The package in question
    #[arg(value_name = "NAME")]
    name: String,
    /// Packages that were asked for
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
    let mut document = json!({
        "schema": "kubexm.io/packages-why/v1", "os": resolved.profile.name, "arch": args.from.arch.as_str(),
        "package": args.name, "solvable": resolved.closure.is_ok(), "in": false,
    });
    let closure = match &resolved.closure {
        Ok(closure) => closure,
        Err(unsolvable) if json => {
            document["reasons"] = reasons(unsolvable).into();
            display.answer(&document.to_string());
            return Err(Failure::silent(ExitCode::NoSource));
        }
        Err(unsolvable) => return Err(refused(unsolvable)),
    };
    let (pool, found) = (&resolved.pool, why(&resolved.pool, closure, &args.name));
    let name = |id| &*pool.package(id).name;
    if json {
        document["in"] = found.is_some().into();
        if let Some(found) = &found {
            let chain =
                found.chain.iter().map(|one| json!({ "name": name(one.package), "because": because(&one.because) }));
            let needed_by = found.needed_by.iter().map(|(by, wants)| json!({ "name": name(*by), "wants": wants }));
            document["version"] = found.chain.last().map(|one| &*pool.package(one.package).version).into();
            document["chain"] = chain.collect();
            document["neededBy"] = needed_by.collect();
        }
        display.answer(&document.to_string());
        return if found.is_some() { Ok(()) } else { Err(Failure::silent(ExitCode::NoSource)) };
    }
    let Some(found) = found else {
        let text = format!("{} is none of the {} packages that are needed", args.name, closure.packages.len());
        return Err(Failure::new(ExitCode::NoSource, text));
    };
    for one in &found.chain {
        display.answer(&format!("{}  ({})", pool.package(one.package), one.because));
    }
    for (by, wants) in &found.needed_by {
        display.answer(&format!("  {} needs {wants}", name(*by)));
    }
    Ok(())
}
