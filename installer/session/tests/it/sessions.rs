//! Sessions of several clusters in one process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use kubexm_engine::events::Recorder;
use kubexm_engine::link::ssh::{AGENT_PATH, NoTerminal, Password, Prompt};
use kubexm_engine::{OnFailure, Outcome};
use kubexm_plan::Plan;
use kubexm_session::{
    Access, Answer, BundleOptions, Change, ClusterOptions, Commands, Confirm, Controller, Credentials, Ended, Home,
    HostOptions, Mounted, OutOfReach, Question, Recipe, RunOptions, Session, SessionError, SystemClock, TrustOptions,
    Unreachable, UnsignedCluster, WithoutThem,
};
use kubexm_spec::cluster::{DockerLogin, SecretSource};
use kubexm_spec::{ExitCode, ExitError as _};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use crate::bundle::{cluster_yaml, write_bundle};
use crate::fleet::SimConnector;

/// A cluster with a home, hosts and a reader of its own.
pub struct Site {
    pub folder: TempDir,
    pub name: &'static str,
    pub home: Home,
    pub bundle: PathBuf,
    pub hosts: SimConnector,
    pub events: Recorder,
    pub answers: Answers,
    pub controller: Controller,
    pub secrets: NoSecrets,
}

/// Answers everything alike, and keeps what was asked.
pub struct Answers {
    pub answer: Answer,
    pub without_them: WithoutThem,
    pub asked: Mutex<Vec<String>>,
}

impl Answers {
    pub fn of(answer: Answer) -> Self {
        Self { answer, without_them: WithoutThem::Keep, asked: Mutex::default() }
    }
}

#[async_trait]
impl Confirm for Answers {
    fn trust_cluster(&self, question: &UnsignedCluster) -> Answer {
        self.asked.lock().unwrap().push(question.wanted.join("\n"));
        self.answer
    }

    async fn confirm(&self, question: Question<'_>) -> Answer {
        if let Change::Run { drift: Some(drift), .. } = question.change {
            let steps = drift.steps.iter().map(|step| step.step.to_string()).collect::<Vec<_>>().join(" ");
            self.asked.lock().unwrap().push(format!("drift: {steps}"));
        }
        if let Some(digest) = question.plan_file {
            self.asked.lock().unwrap().push(format!("a plan of a file with {digest}"));
        }
        let what = match question.change {
            Change::Run { plan, .. } => plan.pipeline.to_string(),
            Change::Rollback { .. } => "rollback".to_owned(),
        };
        self.asked.lock().unwrap().push(format!("{what} of {}", question.cluster));
        self.answer
    }

    async fn out_of_reach(&self, question: &OutOfReach<'_>) -> WithoutThem {
        let lost: Vec<&str> = question.lost.iter().map(|lost| lost.host.as_str()).collect();
        let changed = question.others.iter().filter(|(_, changed)| *changed > 0).map(|(host, _)| *host);
        let changed = changed.collect::<Vec<_>>().join(" ");
        self.asked.lock().unwrap().push(format!("without {}: {changed}", lost.join(" ")));
        self.without_them
    }
}

/// No password, and one text for whatever else is asked for.
pub struct NoSecrets(pub Option<String>);

impl Credentials for NoSecrets {
    fn password(&self, _: &SecretSource, _: &Home) -> Result<Password, String> {
        Err("there is none".to_owned())
    }

    fn secret(&self, _: &SecretSource, _: &Home) -> Result<Zeroizing<String>, String> {
        self.0.clone().map(Zeroizing::new).ok_or_else(|| "there is none".to_owned())
    }

    fn docker_password(&self, _: &DockerLogin<'_>, _: &Home) -> Result<Zeroizing<String>, String> {
        self.0.clone().map(Zeroizing::new).ok_or_else(|| "there is none".to_owned())
    }

    fn passphrase(&self, _: &Path) -> Result<Zeroizing<String>, String> {
        self.0.clone().map(Zeroizing::new).ok_or_else(|| "there is none".to_owned())
    }

    fn new_passphrase(&self, file: &Path) -> Result<Zeroizing<String>, String> {
        self.passphrase(file)
    }

    fn prompt(&self) -> Arc<dyn Prompt> {
        Arc::new(NoTerminal)
    }
}

struct NoCommands;

impl Commands for NoCommands {
    fn resume(&self, run: &str) -> String {
        format!("resume {run}")
    }

    fn rollback(&self, run: &str) -> String {
        format!("rollback {run}")
    }
}

pub const RUN: RunOptions<'static> = RunOptions {
    on_failure: OnFailure::Rollback,
    max_failed_workers: 0,
    fan_out: true,
    drill: None,
    commands: &NoCommands,
};

impl Site {
    pub fn new(name: &'static str, hosts: &[&str], answer: Answer) -> Self {
        let site = Self::of(name, hosts, &cluster_yaml(name, hosts), write_bundle);
        Self { answers: Answers::of(answer), ..site }
    }

    /// Of another cluster.yaml, and a bundle that is written otherwise. Every answer is a yes.
    pub fn of(name: &'static str, hosts: &[&str], yaml: &str, write: impl FnOnce(&Path, &str) -> PathBuf) -> Self {
        let (folder, answer) = (tempfile::tempdir().unwrap(), Answer::Yes);
        let bundle = write(folder.path(), yaml);
        fs::write(folder.path().join("cluster.yaml"), yaml).unwrap();
        let home = Home::new(folder.path().join("home"), None, None);
        let controller =
            Controller { tool: "test".into(), name: "here".into(), agent: Path::new("/nowhere").to_owned() };
        let answers = Answers::of(answer);
        let (hosts, events) = (SimConnector::new(hosts), Recorder::default());
        Self { folder, name, home, bundle, hosts, events, answers, controller, secrets: NoSecrets(None) }
    }

    pub fn session(&self) -> Session<'_> {
        Session {
            home: &self.home,
            events: &self.events,
            confirm: &self.answers,
            credentials: &self.secrets,
            connector: &self.hosts,
            clock: &SystemClock,
            file_systems: &Mounted,
            controller: &self.controller,
            cancel: CancellationToken::new(),
        }
    }

    pub async fn create(&self) -> Result<Ended, SessionError> {
        let bundle = BundleOptions { bundle: vec![self.bundle.clone()], ..BundleOptions::default() };
        create(&self.session(), &bundle, RUN).await
    }

    /// The checked plan of `create`, with the operator's own cluster.yaml where one is given.
    pub async fn plan(&self, file: Option<PathBuf>) -> Plan {
        let (session, hosts, trust) = (self.session(), HostOptions::default(), TrustOptions::default());
        let options = BundleOptions { bundle: vec![self.bundle.clone()], file, ..BundleOptions::default() };
        let opened = session.open(&options).unwrap();
        opened.check_closed_world().unwrap();
        let access = Access::obtain(&session, opened.cluster(), &trust, &hosts).unwrap();
        let observed = session.observe("plan", opened, &access, &hosts, Unreachable::Refused("")).await.unwrap();
        let checked = observed.plan(Recipe::Create).await.unwrap().check().await.unwrap();
        checked.leave().await.plan().clone()
    }

    pub async fn reset(&self) -> Result<Ended, SessionError> {
        let (session, hosts) = (self.session(), HostOptions::default());
        let cluster =
            ClusterOptions { file: Some(self.folder.path().join("cluster.yaml")), ..ClusterOptions::default() };
        let source = session.cluster(&cluster)?;
        let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
        let observed = session.observe("reset", source, &access, &hosts, Unreachable::Refused("")).await?;
        observed.plan(&[]).await?.check().await?.start(RUN).await?.finish().await
    }

    pub fn events(&self) -> String {
        self.events.events().iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect()
    }

    pub fn connected(&self) -> usize {
        self.hosts.agents.connected.load(Ordering::Relaxed)
    }
}

pub async fn create(session: &Session<'_>, bundle: &BundleOptions, run: RunOptions<'_>) -> Result<Ended, SessionError> {
    let hosts = HostOptions::default();
    let opened = session.open(bundle)?;
    opened.check_closed_world()?;
    let access = Access::obtain(session, opened.cluster(), &bundle.trust, &hosts)?;
    let verified = opened.verify(session)?;
    let observed = session.observe("create", verified, &access, &hosts, Unreachable::Refused("")).await?;
    observed.plan(Recipe::Create).await?.check().await?.start(run).await?.finish().await
}

#[tokio::test]
async fn two_clusters_are_created_at_once_in_one_process_without_affecting_each_other() {
    let red = Site::new("red", &["red1", "red2"], Answer::Yes);
    let blue = Site::new("blue", &["blue1"], Answer::Yes);
    let mut before = red.hosts.fleet.snapshot();

    let (of_red, of_blue) = tokio::join!(red.create(), blue.create());

    for (site, other, ended) in [(&red, "blue", of_red.unwrap()), (&blue, "red", of_blue.unwrap())] {
        let run = ended.run.as_ref().unwrap();
        assert_eq!((ended.exit_code(), run.outcome), (ExitCode::Ok, Outcome::Succeeded), "{:#?}", run.status);
        assert_eq!(site.hosts.fleet.broken_invariants(), Vec::<String>::new());
        let kubeconfig = fs::read_to_string(ended.kubeconfig.unwrap()).unwrap();
        assert!(kubeconfig.starts_with(&format!("{} at 10.0.0.", site.name)), "{kubeconfig}");
        assert!(run.report.starts_with(site.folder.path()), "{}", run.report.display());
        let asked = site.answers.asked.lock().unwrap().join("\n");
        assert!(asked.contains(&format!("hosts of cluster {}", site.name)), "{asked}");
        assert!(asked.ends_with(&format!("create of {}", site.name)), "{asked}");
        let events = site.events();
        assert!(events.contains(&format!("{}1", site.name)) && !events.contains(&format!("{other}1")), "{events}");
        assert_eq!(site.connected(), site.hosts.agents.closed.load(Ordering::Relaxed), "hosts are free again");
    }

    // The same driver removes one again; the other stays.
    let made = blue.hosts.fleet.snapshot();
    let ended = red.reset().await.unwrap();
    assert!(ended.is_success(), "{:#?}", ended.run);
    // But for the agent, which goes with the cluster.
    before.values_mut().for_each(|host| host.retain(|key, _| !key.ends_with(AGENT_PATH)));
    assert_eq!(red.hosts.fleet.snapshot(), before, "every host is as it was before create");
    assert!(!red.home.cluster("red").kubeconfig().exists());
    assert_eq!(blue.hosts.fleet.snapshot(), made);
}

#[tokio::test]
async fn a_second_create_asks_about_what_has_drifted_and_about_nothing_else() {
    let site = Site::new("red", &["red1", "red2"], Answer::Yes);
    let drift = || {
        let asked = std::mem::take(&mut *site.answers.asked.lock().unwrap());
        asked.into_iter().find_map(|asked| asked.strip_prefix("drift: ").map(str::to_owned))
    };
    site.create().await.unwrap();
    assert_eq!(drift(), None, "the hosts were not in the cluster");
    site.create().await.unwrap();
    assert_eq!(drift().as_deref(), Some(""), "nothing has drifted");
    site.hosts.fleet.set_state("red2", "swap", "on");
    site.create().await.unwrap();
    assert_eq!(drift().as_deref(), Some("red2/os.swap"));
}

#[tokio::test]
async fn declining_changes_nothing_and_removes_the_agents() {
    let site = Site::new("red", &["red1", "red2"], Answer::Yes);
    let before = site.hosts.fleet.snapshot();
    let asked = Site { answers: Answers::of(Answer::No), ..site };
    let session = asked.session();
    let yaml = asked.folder.path().join("cluster.yaml");
    let bundle = BundleOptions { bundle: vec![asked.bundle.clone()], file: Some(yaml), ..BundleOptions::default() };
    let (opened, hosts) = (session.open(&bundle).unwrap(), HostOptions::default());
    let access = Access::obtain(&session, opened.cluster(), &bundle.trust, &hosts).unwrap();
    let verified = opened.verify(&session).unwrap();
    let observed = session.observe("create", verified, &access, &hosts, Unreachable::Refused("")).await.unwrap();
    let checked = observed.plan(Recipe::Create).await.unwrap().check().await.unwrap();
    let Err(error) = checked.start(RUN).await else { unreachable!("it was declined") };

    assert_eq!(error.exit_code(), ExitCode::Declined);
    assert_eq!(
        *asked.answers.asked.lock().unwrap(),
        ["create of red"],
        "the operator's own cluster.yaml needs no question"
    );
    assert_eq!(asked.hosts.fleet.snapshot(), before);
    assert_eq!((asked.connected(), asked.hosts.agents.removed.load(Ordering::Relaxed)), (2, 2));
    assert!(asked.home.cluster("red").run_ids().unwrap().is_empty());
}

#[tokio::test]
async fn hosts_of_an_unsigned_bundle_are_not_connected_to_without_an_answer() {
    for (answer, code) in [(Answer::No, ExitCode::Declined), (Answer::Nobody, ExitCode::UnsignedCluster)] {
        let site = Site::new("red", &["red1"], answer);
        let error = site.create().await.unwrap_err();
        assert_eq!((error.exit_code(), site.connected()), (code, 0), "{error}");
    }
}

#[tokio::test]
async fn a_damaged_bundle_ends_before_any_host_is_connected_to() {
    let site = Site::new("red", &["red1"], Answer::Yes);
    let mut bytes = fs::read(&site.bundle).unwrap();
    let content = b"would be";
    let place = bytes.windows(content.len()).rposition(|window| window == content).unwrap();
    bytes[place] ^= 1;
    fs::write(&site.bundle, bytes).unwrap();
    let error = site.create().await.unwrap_err();
    assert_eq!((error.exit_code(), site.connected()), (ExitCode::BundleDamaged, 0), "{error}");
}
