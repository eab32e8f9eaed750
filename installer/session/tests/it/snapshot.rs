//! A snapshot of etcd in a file is restored like a backup, once somebody says that it is not known who made it.

use std::fs;
use std::path::{Path, PathBuf};

use kubexm_engine::{Drill, OnFailure, Outcome};
use kubexm_plan::{ClusterId, Pipeline, StepId};
use kubexm_session::{Access, Answer, Ended, HostOptions, Restore, RunOptions, SessionError, Unreachable};
use kubexm_spec::{Digest, ExitCode, ExitError as _};

use crate::adopt::options;
use crate::adopted_runs::{id as id_of, roll_back};
use crate::sessions::{RUN, Site};

/// Pages that begin as those of a database, with their checksum.
fn snapshot(fill: u8) -> Vec<u8> {
    let mut data = vec![fill; 4096];
    data[16..20].copy_from_slice(&0xED0C_DAED_u32.to_le_bytes());
    let hex = Digest::of(&data).hex();
    let sum = (0..32).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap());
    data.iter().copied().chain(sum).collect()
}

async fn made() -> (Site, ClusterId) {
    let site = Site::new("red", &["red1", "red2"], Answer::Yes);
    site.create().await.unwrap();
    let stamp = site.hosts.fleet.links()["red1"].facts().await.unwrap().stamp.unwrap();
    (site, stamp.id.unwrap())
}

fn file(site: &Site, name: &str, bytes: &[u8]) -> PathBuf {
    let path = site.folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// As `restore FILE` does.
async fn restore(site: &Site, file: &Path, allow: bool, run: RunOptions<'_>) -> Result<Ended, SessionError> {
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(site));
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let restored = session.snapshot_source(source, file, allow)?;
    let (restored, access) = match session.restore_to_start(restored, access)? {
        Restore::New(restored, access) => (*restored, *access),
        Restore::Begun(begun) => return begun.continue_restore(&hosts, run).await?.finish().await,
    };
    let verb = Pipeline::Restore.name();
    let observed = session.observe(verb, restored, &access, &hosts, Unreachable::Refused("")).await?;
    observed.plan_restore().await?.check().await?.start(run).await?.finish().await
}

/// A refusal before any host was contacted.
async fn refused(site: &Site, file: &Path, allow: bool, words: &str) {
    let before = site.connected();
    let error = restore(site, file, allow, RUN).await.err().unwrap();
    assert_eq!((error.exit_code(), site.connected()), (ExitCode::BackupUnusable, before), "{error}");
    assert!(error.to_string().contains(words), "{words}: {error}");
    let below = site.home.cluster("red").folder.join("snapshots");
    assert!(!below.exists() || fs::read_dir(&below).unwrap().next().is_none(), "nothing stays in the home");
}

#[tokio::test]
async fn a_snapshot_of_a_timer_is_restored_and_nothing_of_it_stays_in_the_home() {
    let (site, id) = made().await;
    let path = file(&site, &format!("etcd-red-{id}-red1-20260921T141321Z.db"), &snapshot(7));
    refused(&site, &path, false, "NOT AUTHENTICATED").await;
    let ended = restore(&site, &path, true, RUN).await.unwrap();
    assert_eq!(ended.run.as_ref().unwrap().outcome, Outcome::Succeeded, "{:#?}", ended.run);
    assert_eq!(site.answers.asked.lock().unwrap().last().unwrap(), "restore of red");
    assert!(!site.home.cluster("red").folder.join("snapshots").exists());
    // Another one is another restore, and so is this one again.
    let again = restore(&site, &path, true, RUN).await.unwrap();
    assert_ne!(id_of(&again), id_of(&ended));
}

#[tokio::test]
async fn what_cannot_be_restored_is_refused_by_name_before_a_host_is_contacted() {
    let (site, id) = made().await;
    let name = format!("etcd-red-{id}-red1-20260921T141321Z.db");
    let whole = snapshot(7);
    let other = file(&site, &format!("etcd-blue-{id}-blue1-20260921T141321Z.db"), &whole);
    refused(&site, &other, true, "is a snapshot of cluster blue by its name, and not of red").await;
    let cut = file(&site, &name, &whole[..whole.len() - 512]);
    refused(&site, &cut, true, "it was cut off or altered").await;
    let text = file(&site, &name, b"apiVersion: v1\n");
    refused(&site, &text, true, "does not begin as a database of etcd").await;
    refused(&site, &site.folder.path().join("nowhere.db"), true, "nowhere.db is no snapshot of etcd").await;
    refused(&site, site.folder.path(), true, "is no snapshot of etcd").await;
}

#[tokio::test]
async fn a_snapshot_of_an_earlier_cluster_of_that_name_is_refused_and_one_that_does_not_say_is_taken() {
    let (site, _) = made().await;
    let other = ClusterId::from_random([9; 16]);
    let path = file(&site, &format!("etcd-red-{other}-red1-20260921T141321Z.db"), &snapshot(7));
    let before = site.hosts.fleet.snapshot();
    let error = restore(&site, &path, true, RUN).await.err().unwrap();
    assert_eq!(error.exit_code(), ExitCode::BackupUnusable, "{error}");
    assert!(
        error.to_string().contains(&other.to_string()) && error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    assert_eq!(site.hosts.fleet.snapshot(), before);
    let unnamed = file(&site, "before-v1.34.4-1.db", &snapshot(7));
    assert_eq!(restore(&site, &unnamed, true, RUN).await.unwrap().run.unwrap().outcome, Outcome::Succeeded);
}

#[tokio::test]
async fn a_restore_of_a_snapshot_that_has_failed_goes_on_with_the_same_file_and_with_no_other() {
    let (site, id) = made().await;
    let path = file(&site, &format!("etcd-red-{id}-red1-20260921T141321Z.db"), &snapshot(7));
    let drill = Some(Drill::FailStep(StepId("red1/restore.data".to_owned())));
    let ended = restore(&site, &path, true, RunOptions { drill, on_failure: OnFailure::Keep, ..RUN }).await.unwrap();
    assert_eq!(ended.run.as_ref().unwrap().outcome, Outcome::Failed);
    let another = file(&site, &format!("etcd-red-{id}-red1-20260922T141321Z.db"), &snapshot(8));
    let error = restore(&site, &another, true, RUN).await.err().unwrap();
    assert!(error.to_string().contains("restores another backup and has not ended"), "{error}");
    let went_on = restore(&site, &path, true, RUN).await.unwrap();
    assert_eq!((id_of(&went_on), went_on.run.unwrap().outcome), (id_of(&ended), Outcome::Succeeded));
    let back = roll_back(&site, Pipeline::Restore, &id_of(&ended)).await.unwrap();
    assert_eq!(back.run.unwrap().outcome, Outcome::RolledBack);
}
