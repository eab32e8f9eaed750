//! `kubexm-install create --from-backup`.

use std::path::Path;

use kubexm_session::{Access, CreateFromBackup, Recipe, Unreachable};
use kubexm_terminal::{Display, Failure};

use super::args::{AsideArgs, ChangeArgs};
use super::resume_command::Again;
use super::s3_args::S3Args;
use crate::render::ended;
use crate::terminal::Shell;

/// The backup, and whose it may be.
pub struct Backup<'a> {
    pub at: &'a Path,
    pub s3: &'a S3Args,
    pub allow_unauthenticated: bool,
}

/// The commands of a run. The same one continues it: it goes on with the cluster's last run, if that is of this backup and has not ended.
struct Commands<'a> {
    again: Again<'a>,
    aside: AsideArgs,
    backup: &'a Backup<'a>,
}

impl kubexm_session::Commands for Commands<'_> {
    fn resume(&self, _: &str) -> String {
        let mut words = self.again.begin("create");
        words.extend(["--from-backup".to_owned(), S3Args::word(self.backup.at)]);
        words.extend(self.backup.s3.words());
        words.extend(self.backup.allow_unauthenticated.then(|| "--allow-unauthenticated".to_owned()));
        words.extend(self.aside.set_aside.then(|| "--set-aside".to_owned()));
        words.join(" ")
    }

    fn rollback(&self, run: &str) -> String {
        self.again.rollback(run)
    }

    fn die(&self) {
        self.again.die();
    }
}

pub fn run(args: &ChangeArgs, aside: AsideArgs, backup: &Backup<'_>, display: &Display) -> Result<(), Failure> {
    let shell = Shell::changing(display, args.yes)?;
    let (session, bundle, hosts) = (shell.session(), args.bundle.options(), args.hosts.options()?);
    let place = backup.s3.place(backup.at)?;
    place.check_backup()?;
    let again = Again { bundle: &args.bundle, hosts: &args.hosts, failure: &args.failure };
    let commands = Commands { again, aside, backup };
    let opened = session.open(&bundle)?.setting_aside(aside.set_aside).without_fan_out(args.failure.no_fan_out);
    opened.check_remembered(&session)?;
    opened.check_closed_world()?;
    shell.check_can_confirm()?;
    let access = Access::obtain_with_backup(&session, opened.cluster(), (&bundle.trust, &hosts), backup.at)?;
    let verified = opened.verify(&session)?;
    let operators = verified.opened().cluster().proven_operators();
    let senders = (!backup.allow_unauthenticated).then_some(operators.as_slice());
    let fetched = shell.wait(session.local_backup(&place, senders))?;
    let wanted = session.from_backup(verified, fetched, backup.allow_unauthenticated)?;
    let options = args.failure.options(&commands);
    let ended = shell.wait(async {
        let (wanted, access) = match session.create_from_backup_to_start(wanted, access)? {
            CreateFromBackup::New(wanted, access) => (*wanted, *access),
            CreateFromBackup::Begun(run) => return run.continue_create(&hosts, options).await?.finish().await,
        };
        let source = wanted.source().clone();
        let observed = session.observe("create", wanted, &access, &hosts, Unreachable::Refused("")).await?;
        let planned = observed.plan(Recipe::CreateFromBackup(&source)).await?;
        planned.check().await?.start(options).await?.finish().await
    })?;
    ended::report(&ended, "", display)
}
