//! Fills the content stores of hosts over SSH, as `create` does in its step `store.fill`, and empties them again: for `scripts/bench
//! fan-out`. Prints the seconds that the filling took, and what the run said of it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a tool for whoever works on the tests"
)]

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use kubexm_engine::events::Recorder;
use kubexm_engine::link::ssh::{
    AgentBinary, AgentSource, KeySource, Login, NoTerminal, SshLink, SshOptions, SshTarget,
};
use kubexm_engine::link::{BlobSource, Link};
use kubexm_engine::{ClusterPki, ExecuteOptions, Links, Outcome, Run, RunId, execute, roll_back};
use kubexm_plan::op::Blobs;
use kubexm_plan::{CheckedPlan, Pipeline, Plan, PlanHost, SCHEMA, Step, Undo, lint};
use kubexm_spec::event::EventKind;
use kubexm_spec::{Arch, Digest};
use tokio::io::{AsyncRead, AsyncSeekExt as _};

/// As recipes plan.
const FLEET_CONCURRENCY: usize = 32;
const PORT: u16 = 5444;

struct Arguments {
    agent: PathBuf,
    key: PathBuf,
    content: PathBuf,
    hosts: u8,
    /// The first three numbers of the hosts' addresses.
    network: String,
    fan_out: bool,
}

impl Arguments {
    fn read() -> Self {
        let mut words = std::env::args().skip(1);
        let mut values = BTreeMap::new();
        let mut fan_out = true;
        while let Some(word) = words.next() {
            match word.as_str() {
                "--no-fan-out" => fan_out = false,
                name => drop(values.insert(name.to_owned(), words.next().expect("a value"))),
            }
        }
        let value = |name: &str| values.get(name).unwrap_or_else(|| panic!("{name} is missing")).clone();
        Self {
            agent: value("--agent").into(),
            key: value("--key").into(),
            content: value("--content").into(),
            hosts: value("--hosts").parse().expect("a number"),
            network: value("--network"),
            fan_out,
        }
    }

    fn address(&self, number: u8) -> IpAddr {
        format!("{}.{number}", self.network).parse().expect("an address")
    }
}

/// Files of a folder, by digest.
struct Content(BTreeMap<Digest, (PathBuf, u64)>);

impl Content {
    fn of(folder: &Path) -> Self {
        let files = std::fs::read_dir(folder).expect("a folder").map(|entry| {
            let path = entry.expect("an entry").path();
            let bytes = std::fs::read(&path).expect("a file");
            (Digest::of(&bytes), (path, bytes.len() as u64))
        });
        Self(files.collect())
    }

    fn sizes(&self) -> BTreeMap<Digest, u64> {
        self.0.iter().map(|(digest, (_, size))| (*digest, *size)).collect()
    }
}

#[async_trait]
impl BlobSource for Content {
    async fn open(&self, digest: Digest, offset: u64) -> std::io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        let (path, _) = self.0.get(&digest).ok_or_else(|| std::io::Error::other("no such blob"))?;
        let mut file = tokio::fs::File::open(path).await?;
        file.seek(std::io::SeekFrom::Start(offset)).await?;
        Ok(Box::new(file))
    }
}

fn name(number: u8) -> String {
    format!("n{number}")
}

fn plan(arguments: &Arguments, content: &Content) -> CheckedPlan {
    let steps = (1..=arguments.hosts).map(|number| {
        let shared_at = (arguments.hosts > 1).then(|| SocketAddr::from((arguments.address(number), PORT)));
        Step::on(&name(number), "store.fill", "Copy the bundle's content to the node")
            .ensure(Blobs { blobs: content.sizes(), depots: None, shared_at })
            .timeout_s(3600)
            .undo(Undo::RestoreBefore)
            .build()
    });
    let steps = steps.collect();
    let hosts = (1..=arguments.hosts).map(|number| PlanHost { name: name(number), roles: Vec::new(), optional: false });
    let plan = Plan {
        schema: SCHEMA,
        pipeline: Pipeline::Create,
        cluster_name: "bench".to_owned(),
        cluster_id: None,
        cluster: Digest::of("cluster.yaml"),
        bundle: Some(Digest::of("bundle")),
        hosts: hosts.collect(),
        fleet_concurrency: FLEET_CONCURRENCY,
        host_concurrency: 4,
        slots: BTreeMap::new(),
        texts: BTreeMap::new(),
        steps,
    };
    lint::check(plan).expect("the plan passes the lint").0
}

async fn connect(arguments: &Arguments, options: &SshOptions, number: u8) -> SshLink {
    let arch = Arch::from_any(std::env::consts::ARCH).expect("an architecture");
    let agent = AgentBinary {
        sources: [(arch, AgentSource::File(arguments.agent.clone()))].into(),
        path: "/usr/local/bin/kubexm-install".to_owned(),
    };
    let target = SshTarget {
        name: name(number),
        address: arguments.address(number).to_string(),
        port: 22,
        login: Login { user: "root".to_owned(), keys: vec![KeySource::File(arguments.key.clone())], password: None },
        sudo_password: None,
        via: Vec::new(),
        folders: kubexm_plan::facts::DataFolders::default(),
    };
    SshLink::connect(target, options.clone(), agent).await.expect("a link")
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::read();
    let (content, folder) = (Content::of(&arguments.content), tempfile::tempdir().expect("a folder"));
    let plan = plan(&arguments, &content);
    let options = SshOptions {
        known_hosts: vec![folder.path().join("known_hosts")],
        accept_new: true,
        connect_timeout: Duration::from_secs(60),
        keepalive: Duration::from_secs(15),
        holder: "the bench".to_owned(),
        prompt: Arc::new(NoTerminal),
        shared: Arc::default(),
    };
    let mut ssh = Vec::new();
    for number in 1..=arguments.hosts {
        ssh.push((name(number), Arc::new(connect(&arguments, &options, number).await)));
    }
    let links: Links = ssh.iter().map(|(name, link)| (name.clone(), Arc::clone(link) as Arc<dyn Link>)).collect();
    let pki = ClusterPki::open(&folder.path().join("pki")).expect("a pki folder");
    let mut run = Run::create(&folder.path().join("runs"), RunId::named("bench"), &plan).expect("a run");
    let events = Recorder::default();
    let options = ExecuteOptions { fan_out: arguments.fan_out, ..ExecuteOptions::new("bench", "bench") };
    let begun = Instant::now();
    let outcome = execute(&plan, &links, &mut run, &pki, &content, &events, options.clone()).await.expect("a run");
    let took = begun.elapsed().as_secs_f64();
    for event in events.events() {
        match event.kind {
            EventKind::Warning { text } => eprintln!("warning: {text}"),
            EventKind::StepEnded { step, error: Some(error), .. } => eprintln!("{step}: {error}"),
            _ => (),
        }
    }
    assert_eq!(outcome, Outcome::Succeeded, "the filling failed");
    let said = events.events().into_iter().find_map(|event| match event.kind {
        EventKind::Note { text } => Some(text),
        _ => None,
    });
    println!("{took:.2} s; {}", said.unwrap_or_default());
    let back = roll_back(&plan, &links, &mut run, &Recorder::default(), options).await.expect("a rollback");
    assert_eq!(back, Outcome::RolledBack, "the stores were not emptied");
    for (_, link) in &ssh {
        link.close().await;
    }
}
