//! `kubexm-install certs requests`.

use std::path::PathBuf;

use kubexm_session::{ClusterOptions, RequestOptions};
use kubexm_terminal::{Display, Failure, Mode};

use super::length::length;
use crate::render::requests::text;
use crate::terminal::Shell;

/// Request the certificates that your site's CA signs, where its key stays with the site
///
/// For a cluster whose cluster.yaml has spec.kubernetes.ca.certificatesFolder. For each certificate that the cluster's CA would sign, a key
/// is made in $KUBEXM_HOME (it never leaves it but for the host), and a request (PKCS#10) is written into that folder, with its extensions
/// for OpenSSL (NAME.ext) and a list of all for people (requests.txt) and programs (requests.json). The signed certificates belong into
/// the same folder, as NAME.crt; create, add-node and certs renew take them from there.
///
/// No host is connected to, and no bundle is needed. Run again, it keeps keys and requests that still fit, and makes what is new: for a
/// host that was added, for other names of the API server, and for certificates that end within --within.
///
/// Examples:
///   kubexm-install certs requests -f cluster.yaml
///   kubexm-install certs requests -f cluster.yaml --out /media/stick/demo    # certificates still belong into certificatesFolder
///   kubexm-install certs requests -f cluster.yaml --host node7               # of a host that is added
///   kubexm-install certs requests -f cluster.yaml --json | jq '.requests[] | select(.state != "signed") | .name'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// cluster.yaml
    #[arg(short = 'f', long, value_name = "CLUSTER.YAML")]
    file: PathBuf,
    /// Write the requests into this folder, not into certificatesFolder
    #[arg(short = 'o', long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only those of this host; may be repeated
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Request anew what ends within this time: days (30d), hours (36h) or seconds [default: 90d;
    /// with a certificateValidityPeriod of less than a year, a quarter of it less 30h]
    #[arg(long, value_name = "TIME", value_parser = length)]
    within: Option<i64>,
    /// Request all anew, with other keys
    #[arg(long)]
    force: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::looking(display)?;
    let session = shell.session();
    let source = session.cluster(&ClusterOptions { file: Some(args.file.clone()), ..ClusterOptions::default() })?;
    let cluster = source.cluster();
    let options = RequestOptions {
        out: args.out.clone(),
        hosts: args.hosts.clone(),
        within_s: args.within.unwrap_or_else(|| cluster.certificate_validity().soon_s()),
        force: args.force,
    };
    let made = session.request_certificates(cluster, &options)?;
    match display.mode() {
        Mode::Json => display.answer(&made.document().to_string()),
        Mode::Terminal | Mode::Plain => display.answer(&text(&made)),
    }
    Ok(())
}
