//! Questions, asked at the terminal.

use std::io::{IsTerminal, Write as _};

use async_trait::async_trait;
use kubexm_engine::backup::{BackupAbout, SnapshotName};
use kubexm_engine::clock::rfc3339;
use kubexm_plan::op::{Act, EtcdKeysDelete, Op};
use kubexm_plan::{Pipeline, Plan};
use kubexm_session::events::{note, warning};
use kubexm_session::{
    Answer, Change, Confirm, Drift, OutOfReach, Question, RestoredBackup, UnsignedCluster, WithoutThem, escaped,
};
use kubexm_spec::{Digest, ExitCode, counted};
use kubexm_terminal::{Display, Failure, Mode};

use super::events::Shown;
use crate::render::pipelines;
use crate::render::{out_of_reach, summary};

/// Asks the person at the terminal.
pub struct Terminal<'d> {
    display: &'d Display,
    /// Confirmed with `-y`.
    yes: bool,
}

impl<'d> Terminal<'d> {
    /// For a verb that asks nothing about changes.
    pub const fn new(display: &'d Display) -> Self {
        Self { display, yes: false }
    }

    /// For a verb that changes hosts.
    pub const fn changing(display: &'d Display, yes: bool) -> Self {
        Self { display, yes }
    }

    /// Fails where nobody could be asked later.
    pub fn check_can_confirm(&self) -> Result<(), Failure> {
        match self.yes || can_ask(self.display) {
            true => Ok(()),
            false => Err(Failure::new(
                ExitCode::NeedsYes,
                "this changes hosts, and there is no terminal to ask for confirmation: confirm with -y once you know what it does \
                 (`--help`; `kubexm-install plan`, `preflight` and `status` look and change nothing)",
            )),
        }
    }

    fn show(&self, plan: &Plan, drift: Option<&Drift>) {
        let text = drift.map_or_else(|| summary::short(plan), |drift| summary::drifted(plan, drift));
        let shown = Shown(self.display);
        if self.display.mode() == Mode::Terminal {
            self.display.clear();
        }
        text.lines().for_each(|line| note(&shown, line));
    }

    /// Asks at the terminal; no is the default, and what Ctrl-C means.
    async fn is_yes(&self, prompt: &'static str) -> bool {
        self.display.clear();
        let ask = move || dialoguer::Confirm::new().with_prompt(prompt).default(false).interact();
        matches!(tokio::task::spawn_blocking(ask).await, Ok(Ok(true)))
    }

    /// Asks for a name at the terminal; anything else declines.
    async fn is_typed(&self, prompt: &'static str, name: &str) -> bool {
        self.display.clear();
        let ask = move || dialoguer::Input::<String>::new().with_prompt(prompt).allow_empty(true).interact_text();
        matches!(tokio::task::spawn_blocking(ask).await, Ok(Ok(typed)) if typed.trim() == name)
    }

    /// Shows what would be done, and gives the question.
    fn describe(&self, question: &Question<'_>) -> &'static str {
        let shown = Shown(self.display);
        match question.change {
            Change::Run { plan, drift, missing, backup } => {
                let sentences = plan.pipeline.row().sentences;
                self.show(plan, drift);
                if let Some(keys) = keys_of_etcd(plan) {
                    warning(&shown, what_is_deleted(keys));
                }
                if let Some(text) = pipelines::before(plan) {
                    note(&shown, text);
                }
                for text in summary::packages_to_remove(plan) {
                    warning(&shown, text);
                }
                if let Some(becomes) = sentences.out_of_reach {
                    missing.iter().for_each(|host| warning(&shown, format!("{host} {becomes}")));
                }
                if let Some(RestoredBackup { about: backup, unauthenticated, snapshot }) = backup {
                    if let Some(why) = unauthenticated {
                        warning(&shown, why.to_owned());
                    }
                    if unauthenticated.is_none() {
                        let text =
                            "the backup's seal is proven: this home, or an operator of cluster.yaml, has made it";
                        note(&shown, text.to_owned());
                    }
                    let text = match (plan.pipeline, snapshot) {
                        (_, Some(name)) => what_a_snapshot_restores(question.cluster, name),
                        (Pipeline::CreateFromBackup, None) => what_is_made(question.cluster, backup),
                        (_, None) => what_is_restored(question.cluster, backup),
                    };
                    warning(&shown, text);
                }
                match keys_of_etcd(plan) {
                    Some(_) => "Type the name of the cluster to remove it, with its keys in your etcd",
                    None => sentences.question,
                }
            }
            Change::Rollback { run, plan, changed } => {
                let hosts: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
                let (cluster, hosts) = (question.cluster, hosts.join(", "));
                note(&shown, format!("{run} of cluster {cluster}: {changed} steps changed something on {hosts}"));
                plan.pipeline.row().sentences.rollback
            }
        }
    }
}

#[async_trait]
impl Confirm for Terminal<'_> {
    /// Only the whole word confirms: this is not the usual question that is answered with one key. A line is read as
    /// the terminal gives it, so that Ctrl-C ends the program there as everywhere before a run, and the end of input
    /// declines.
    fn trust_cluster(&self, question: &UnsignedCluster) -> Answer {
        if !can_ask(self.display) {
            return Answer::Nobody;
        }
        let (shown, bundle) = (Shown(self.display), &question.bundle);
        warning(
            &shown,
            format!("{bundle}. Anybody who had access to it may have written its cluster.yaml, which asks:"),
        );
        question.wanted.iter().for_each(|line| note(&shown, line));
        self.display.clear();
        let mut answer = String::new();
        let asked = write!(std::io::stderr(), "Connect to these hosts, and use these secrets? Type yes to continue: ");
        match asked.and_then(|()| std::io::stdin().read_line(&mut answer)).is_ok() && answer.trim() == "yes" {
            true => Answer::Yes,
            false => Answer::No,
        }
    }

    async fn confirm(&self, question: Question<'_>) -> Answer {
        let prompt = self.describe(&question);
        let shown = Shown(self.display);
        match question.provenance {
            Some(signed) if signed.is_signed() => note(&shown, format!("the bundle is {signed}")),
            Some(unsigned) => warning(&shown, format!("the bundle is {unsigned}")),
            None => note(&shown, "no bundle is used, and cluster.yaml is your own"),
        }
        if let Some(digest) = &question.plan_file {
            warning(&shown, unsigned_plan(digest));
        }
        if self.yes {
            return Answer::Yes;
        }
        let typed = matches!(question.change, Change::Run { plan, .. } if plan.pipeline.row().confirmed_by_name || keys_of_etcd(plan).is_some());
        let yes = if typed { self.is_typed(prompt, question.cluster).await } else { self.is_yes(prompt).await };
        if yes { Answer::Yes } else { Answer::No }
    }

    /// `-y` confirms what was shown before the run, and not the loss of what is sound.
    async fn out_of_reach(&self, question: &OutOfReach<'_>) -> WithoutThem {
        if self.yes || !can_ask(self.display) {
            return WithoutThem::Keep;
        }
        let shown = Shown(self.display);
        out_of_reach::text(question).into_iter().for_each(|line| note(&shown, line));
        match self.is_yes(out_of_reach::PROMPT).await {
            true => WithoutThem::RollBack,
            false => WithoutThem::Keep,
        }
    }
}

/// The keys that a plan deletes in an etcd of the user's.
fn keys_of_etcd(plan: &Plan) -> Option<&EtcdKeysDelete> {
    plan.steps.iter().flat_map(|step| &step.ops).find_map(|op| match op {
        Op::Act(Act::EtcdKeysDelete(keys)) => Some(keys),
        _ => None,
    })
}

fn what_is_deleted(EtcdKeysDelete { endpoints, prefix, keys }: &EtcdKeysDelete) -> String {
    format!(
        "{} below {prefix}/ in your etcd at {} are deleted, once every API server has stopped: all objects of the cluster with their Secrets. \
         Only the backup has them then. Others may use that etcd: nothing that does not begin with {prefix}/ is touched",
        counted(*keys, "key"),
        endpoints.join(", ")
    )
}

/// Nodes that are named one by one.
const NAMED: usize = 10;

/// What a backup brings. A host gave its version, or whoever made the backup.
fn what_is_restored(cluster: &str, backup: &BackupAbout) -> String {
    let version = backup.kubernetes.as_deref().map_or_else(|| "of an unknown version".to_owned(), escaped);
    format!(
        "cluster {cluster} gets the data of {} (Kubernetes {version}, etcd at revision {}): everything that was written since is lost to it, \
         and stays aside on the hosts",
        rfc3339(backup.created),
        backup.etcd.revision
    )
}

/// What a snapshot brings, by what it is called.
fn what_a_snapshot_restores(cluster: &str, name: &SnapshotName) -> String {
    let taken = name.taken.map_or_else(|| "a time that its name does not say".to_owned(), rfc3339);
    let of = match &name.of {
        Some((_, id, host)) => format!("by its name of this cluster (id {id}), made on {}", escaped(host)),
        None => "and its name does not say of which cluster it is: one of another cluster would become this one's"
            .to_owned(),
    };
    format!(
        "cluster {cluster} gets the data of a snapshot of etcd of {taken}, {of}; its version of Kubernetes is not known. Everything that was \
         written since is lost to the cluster, and stays aside on the hosts"
    )
}

/// What a cluster that is made from a backup has, and what not.
fn what_is_made(cluster: &str, backup: &BackupAbout) -> String {
    let version = backup.kubernetes.as_deref().map_or_else(|| "of an unknown version".to_owned(), escaped);
    let had = backup.had.as_ref().map_or_else(String::new, |had| {
        let names = had.nodes.iter().take(NAMED).map(|node| escaped(&node.name)).collect::<Vec<_>>().join(", ");
        let more = had.nodes.len().saturating_sub(NAMED);
        let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
        let members = counted(had.members.len() as u64, "member");
        format!("; it had the nodes {names}{rest}, and {members} of etcd")
    });
    format!(
        "cluster {cluster} (id {}) is made again as it was at {} (Kubernetes {version}, etcd at revision {}, {} keys, made on {}{had}). There \
         again: every object with its Secrets, the authorities with all that they have signed, accounts and their tokens. Not there: data of \
         volumes, images, and what was written since; objects that name earlier hosts (volumes of a host, node selectors) name them still. \
         Earlier nodes are deleted, and their pods made anew on these hosts. The hosts of before must stay off",
        backup.cluster_id,
        rfc3339(backup.created),
        backup.etcd.revision,
        backup.etcd.keys,
        escaped(&backup.host)
    )
}

/// Of a plan that was read from a file: the signature that the question names is of the bundle.
fn unsigned_plan(digest: &Digest) -> String {
    format!(
        "no signature covers this plan: whoever wrote its file decides what is done as root on these hosts. It has {digest}: compare that \
         with what `plan -o` printed when it was made"
    )
}

/// Whether a person can be asked.
fn can_ask(display: &Display) -> bool {
    display.mode() != Mode::Json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use kubexm_plan::ClusterId;
    use kubexm_plan::backup::{Archive, SnapshotFacts};
    use kubexm_recipes::sample;

    use super::*;

    #[test]
    fn a_version_that_a_host_made_up_adds_no_line_to_the_question() {
        let backup = BackupAbout {
            cluster: "red".to_owned(),
            cluster_id: ClusterId::from_random([1; 16]),
            created: 0,
            kubernetes: Some("v1.34.4)\nthe bundle is signed by you\u{1b}[2K".to_owned()),
            host: "cp1".to_owned(),
            program: "test".to_owned(),
            recipients: Vec::new(),
            archive: Archive { sha256: Digest::of("archive"), size: 7 },
            etcd: SnapshotFacts { revision: 1, keys: 1, size: 1 },
            had: None,
        };
        let text = what_is_restored("red", &backup);
        assert!(!text.contains(['\n', '\u{1b}']) && text.contains(r"v1.34.4)\nthe bundle"), "{text}");
    }

    #[test]
    fn what_is_said_of_a_plan_file_names_its_digest_and_that_nobody_signed_it() {
        let digest = Digest::of("plan");
        let text = unsigned_plan(&digest);
        assert!(text.contains("no signature covers this plan") && text.contains(&digest.to_string()), "{text}");
    }

    #[test]
    fn what_is_deleted_in_an_etcd_of_others_is_told_with_its_count_its_endpoints_and_its_prefix() {
        let mut plan = sample::plan(&sample::cluster()).unwrap();
        assert!(keys_of_etcd(&plan).is_none(), "only a plan that deletes them asks for the name");
        let endpoints = vec!["https://10.0.0.5:2379".to_owned(), "https://10.0.0.6:2379".to_owned()];
        let act = EtcdKeysDelete { endpoints, prefix: "/lab/registry".to_owned(), keys: 1234 };
        let why = kubexm_plan::Undo::Irreversible { why: "x".to_owned() };
        plan.steps.push(kubexm_plan::Step::on("a", "reset.etcd", "x").ensure(act).undo(why).build());
        let text = what_is_deleted(keys_of_etcd(&plan).unwrap());
        for part in ["1234 keys", "/lab/registry/", "https://10.0.0.5:2379, https://10.0.0.6:2379", "Others may use"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[tokio::test]
    async fn a_run_is_kept_when_it_was_confirmed_by_an_option_or_nobody_can_be_asked() {
        let plan = sample::plan(&sample::cluster()).unwrap();
        let question = OutOfReach { cluster: "plant", run: "R", plan: &plan, lost: &[], others: Vec::new() };
        for (mode, yes) in [(Mode::Plain, true), (Mode::Json, false)] {
            let display = Display::new(mode);
            let answer = Terminal { display: &display, yes }.out_of_reach(&question).await;
            assert_eq!(answer, WithoutThem::Keep, "{mode:?}");
        }
    }
}
