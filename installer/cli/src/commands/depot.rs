//! `kubexm-install depot`.

use std::path::PathBuf;

use kubexm_depot::DepotError;
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::terminal::start;

/// Serve a bundle's images, files and packages, read-only over TLS; runs as kubexm-depot.service on the registry host
///
/// Repositories for apt and dnf are below /packages/. Ask a depot which it has, and how to set up a host for one by
/// hand:
///   curl --cacert registry-ca.crt https://10.0.0.1:5443/packages/
///   curl --cacert registry-ca.crt https://10.0.0.1:5443/packages/debian-12-amd64/README
///
/// Examples:
///   kubexm-install depot --config /etc/kubexm/depot/config.json
///   systemctl reload kubexm-depot       (reads config, certificate, key and login again)
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, hide = true)]
pub struct Args {
    /// What to serve, and where
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Folder of tls.crt, tls.key and htpasswd (of a login), if they are not where the config says
    ///
    /// The unit does not run as root; systemd passes key and login to it in such a folder.
    #[arg(long, value_name = "FOLDER")]
    tls: Option<PathBuf>,
    /// Check what would be served, and serve nothing
    #[arg(long)]
    check: bool,
    /// Check the config alone
    ///
    /// For a reload: only the unit's main process has certificate and key, and it has those of its start.
    #[arg(long, requires = "check")]
    without_tls: bool,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let depot = |error: DepotError| Failure::from_error(exit_code(&error), &error);
    start::runtime()?.block_on(async {
        if args.check {
            let checked = match args.without_tls {
                true => kubexm_depot::check_config(&args.config).await,
                false => kubexm_depot::check(&args.config, args.tls.as_deref()).await,
            };
            return checked.map_err(depot);
        }
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(ExitCode::Internal, format!("cannot listen for signals: {error}")))
        };
        let (mut terminate, mut hangup) = (listen(SignalKind::terminate())?, listen(SignalKind::hangup())?);
        let running = kubexm_depot::serve(&args.config, args.tls.as_deref()).await.map_err(depot)?;
        tracing::info!(address = %running.address, "serving");
        let (reload, reloads) = mpsc::channel(1);
        tokio::spawn(async move { while hangup.recv().await.is_some() && reload.send(()).await.is_ok() {} });
        tokio::select! {
            () = running.run_with_reloads(reloads) => {}
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        Ok(())
    })
}

const fn exit_code(error: &DepotError) -> ExitCode {
    match error {
        DepotError::Read { .. } | DepotError::Config { .. } | DepotError::Tls { .. } | DepotError::Login { .. } => {
            ExitCode::Config
        }
        DepotError::Listen { .. } => ExitCode::Disk,
    }
}
