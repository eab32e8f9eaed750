//! `kubexm-install backup`.

mod extract;
mod make;
mod verify;

use kubexm_terminal::{Display, Failure};

/// Back up the cluster to a folder of this machine or to S3, verify a backup, or take out what is in it
///
/// A snapshot of etcd is taken on a control plane with a healthy member, checked, restored there on trial, and written with the PKI,
/// the configuration and kubexm's own state into an archive, which is encrypted (age) there: for the operators of
/// cluster.yaml and for the identity of this home, which vouches for it. Nothing of it stays on the host. A backup is a folder with `backup.json` and
/// `archive.age`.
///
/// With --to s3://BUCKET/PREFIX the two are objects (PREFIX/BACKUP/archive.age and then backup.json) of a server that speaks S3: MinIO, Ceph,
/// Amazon. The bucket must be there. The backup is made in $KUBEXM_HOME/staging, which needs room for it, and read back from the
/// server at the end. Older backups that the server does not remove (--keep) are named, and fail nothing.
///
/// Examples:
///   kubexm-install backup --to /srv/backups -f cluster.yaml
///   kubexm-install backup --to /srv/backups -f cluster.yaml --keep 14 --json
///   AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… kubexm-install backup --to s3://backups/lab -f cluster.yaml \
///     --s3-endpoint https://minio.example.com:9000 --s3-ca-file minio-ca.crt --keep 14
///   kubexm-install backup verify /srv/backups/lab-20260921T141321Z
///   kubexm-install backup extract /srv/backups/lab-20260921T141321Z --to /root/lab-backup
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "kubexm-install backup [OPTIONS] --to <PLACE> -f <FILE>
       kubexm-install backup [OPTIONS] --to <PLACE> --bundle <FILE>
       kubexm-install backup verify [OPTIONS] <BACKUP>
       kubexm-install backup extract [OPTIONS] --to <FOLDER> <BACKUP>"
)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    make: make::Args,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Verify(verify::Args),
    Extract(extract::Args),
}

impl Args {
    /// Whether the output is JSON for programs.
    pub const fn json(&self) -> bool {
        match &self.verb {
            Some(Verb::Verify(args)) => args.json,
            Some(Verb::Extract(args)) => args.json,
            None => self.make.json,
        }
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    match &args.verb {
        Some(Verb::Verify(args)) => verify::run(args, display),
        Some(Verb::Extract(args)) => extract::run(args, display),
        None => make::run(&args.make, display),
    }
}
