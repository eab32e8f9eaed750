//! `kubexm-bundle packages query`.

use kubexm_manifests::os::Profiles;
use kubexm_packages::rpm::installed::QUERY;
use kubexm_spec::Family;
use kubexm_terminal::{Display, Failure};

/// Print the command that says what a host has installed, for `packages resolve --installed`
///
/// It is for a POSIX shell on the host, needs no right but to read, and changes nothing.
///
/// Examples:
///   kubexm-bundle packages query --os rocky-9
///   ssh node1 "$(kubexm-bundle packages query --os rocky-9)" > node1.txt
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Operating system of the host: debian-12, ubuntu-22.04, rocky-9
    #[arg(long, value_name = "NAME")]
    os: String,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let profile = Profiles::embedded().get(&args.os).map_err(|error| Failure::from_error(error.exit_code(), &error))?;
    match profile.family {
        Family::Deb => display.answer("cat /var/lib/dpkg/status"),
        Family::Rpm => display.answer(&format!("LC_ALL=C rpm -qa --queryformat '{QUERY}'")),
    }
    Ok(())
}
