//! A cluster of rooted machines behind a session: the real ops, engine and session, with fakes of systemd and kubeadm.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use kubexm_archive::{Input, Options, members, write};
use kubexm_engine::events::Recorder;
use kubexm_engine::link::ssh::{AgentBinary, NoTerminal, Password, Prompt, SshOptions, SshTarget};
use kubexm_engine::link::{Link, LinkError};
use kubexm_engine::{LocalLink, OnFailure};
use kubexm_manifests::{Catalogue, require};
use kubexm_ops::fake::RootedSystem;
use kubexm_session::{
    Answer, Commands, Confirm, Connector, Controller, Credentials, Home, HostLink, Mounted, OutOfReach, Question,
    RunOptions, Session, SystemClock, UnsignedCluster, WithoutThem,
};
use kubexm_spec::cluster::{DockerLogin, SecretSource};
use kubexm_spec::event::{Event, EventKind};
use kubexm_spec::manifest::{Manifest, Member};
use kubexm_spec::{Cluster, Digest, cluster};
use kubexm_tests::laws::scratch;
use kubexm_tests::synthetic::SyntheticBundle;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::mortal::{Death, Kill, Mortal};
use super::picture::{self, Picture};
use crate::preflight_rooted::scene::Host;

/// The name of every cluster here.
pub const CLUSTER: &str = "demo";
/// The program that a link puts on a host.
const AGENT: &str = "/usr/local/bin/kubexm-install";

pub struct Site {
    /// Ended before the folders go.
    held: Vec<Box<dyn std::any::Any + Send + Sync>>,
    folder: TempDir,
    pub home: Home,
    hosts: BTreeMap<String, Host>,
    pub connector: Rooted,
    events: Recorder,
    answers: Answers,
    controller: Controller,
    cancel: CancellationToken,
    /// What is on the hosts before anything of kubexm's.
    before: BTreeMap<String, Picture>,
}

/// Ends what [`Site::immutable`] began: the folder could not be removed.
struct Immutable(fs::File);

impl Drop for Immutable {
    fn drop(&mut self) {
        let _ = rustix::fs::ioctl_setflags(&self.0, rustix::fs::IFlags::empty());
    }
}

/// Says yes to every change.
pub struct Answers;

#[async_trait]
impl Confirm for Answers {
    fn trust_cluster(&self, _: &UnsignedCluster) -> Answer {
        Answer::Yes
    }

    async fn confirm(&self, _: Question<'_>) -> Answer {
        Answer::Yes
    }

    async fn out_of_reach(&self, _: &OutOfReach<'_>) -> WithoutThem {
        WithoutThem::Keep
    }
}

/// Connects to the folders of the hosts.
#[derive(Default)]
pub struct Rooted {
    roots: BTreeMap<String, PathBuf>,
    /// Hosts that do not answer.
    pub lost: Mutex<Vec<String>>,
    /// The agent that is killed next.
    pub death: Arc<Death>,
}

struct RootedHost {
    link: Arc<LocalLink<Mortal>>,
    agent: PathBuf,
    new: bool,
}

#[async_trait]
impl Connector for Rooted {
    async fn connect(&self, target: SshTarget, _: SshOptions, _: AgentBinary) -> Result<Arc<dyn HostLink>, LinkError> {
        let root = &self.roots[&target.name];
        if self.lost.lock().unwrap().contains(&target.name) {
            let reason = "no route to host".to_owned();
            return Err(LinkError::Unreachable { host: target.name.clone(), address: target.name, reason });
        }
        let agent = root.join(AGENT.trim_start_matches('/'));
        let new = !agent.exists();
        if new {
            fs::create_dir_all(agent.parent().unwrap()).unwrap();
            fs::write(&agent, "agent").unwrap();
        }
        let machine = Mortal { machine: kubexm_ops::Machine::rooted(root.clone()), death: Arc::clone(&self.death) };
        Ok(Arc::new(RootedHost { link: Arc::new(LocalLink::new(target.name, machine)), agent, new }))
    }
}

impl RootedHost {
    fn remove(&self) {
        if self.new {
            let _ = fs::remove_file(&self.agent);
        }
    }
}

#[async_trait]
impl HostLink for RootedHost {
    fn link(self: Arc<Self>) -> Arc<dyn Link> {
        Arc::clone(&self.link) as Arc<dyn Link>
    }

    fn agent_installed(&self) -> bool {
        self.agent_is_new()
    }

    fn agent_is_new(&self) -> bool {
        self.new
    }

    async fn revert_agent(&self) -> Result<(), LinkError> {
        self.remove();
        Ok(())
    }

    /// Asked for hosts that had none when the run began, whichever link installed it.
    async fn delete_agent(&self) -> Result<(), LinkError> {
        let _ = fs::remove_file(&self.agent);
        Ok(())
    }

    async fn keep_agent(&self) -> Result<(), LinkError> {
        Ok(())
    }

    async fn kubeconfig(&self, cluster: &Cluster, _: &str) -> Result<Zeroizing<String>, LinkError> {
        Ok(Zeroizing::new(format!("kubeconfig of {}\n", cluster.name)))
    }

    async fn close(&self) {}
}

struct NoSecrets;

impl Credentials for NoSecrets {
    fn password(&self, _: &SecretSource, _: &Home) -> Result<Password, String> {
        Err("there is none".to_owned())
    }

    fn secret(&self, _: &SecretSource, _: &Home) -> Result<Zeroizing<String>, String> {
        Err("there is none".to_owned())
    }

    fn docker_password(&self, _: &DockerLogin<'_>, _: &Home) -> Result<Zeroizing<String>, String> {
        Err("there is none".to_owned())
    }

    fn passphrase(&self, _: &Path) -> Result<Zeroizing<String>, String> {
        Err("there is none".to_owned())
    }

    fn new_passphrase(&self, file: &Path) -> Result<Zeroizing<String>, String> {
        self.passphrase(file)
    }

    fn prompt(&self) -> Arc<dyn Prompt> {
        Arc::new(NoTerminal)
    }
}

struct Printed;

impl Commands for Printed {
    fn resume(&self, run: &str) -> String {
        format!("kubexm-install resume {run}")
    }

    fn rollback(&self, run: &str) -> String {
        format!("kubexm-install rollback {run}")
    }
}

/// A failure rolls back.
pub const ROLLBACK: RunOptions<'static> = RunOptions {
    on_failure: OnFailure::Rollback,
    max_failed_workers: 0,
    fan_out: true,
    drill: None,
    commands: &Printed,
};
/// A failure keeps what was done.
pub const KEEP: RunOptions<'static> = RunOptions { on_failure: OnFailure::Keep, ..ROLLBACK };

fn yaml(hosts: usize) -> String {
    let host = |last: usize| {
        format!("  - {{name: node{last}, address: 10.77.0.{}, user: root, privateKeyPath: /nowhere/key}}\n", last + 10)
    };
    let workers = (1..=hosts).map(|number| format!("node{number}")).collect::<Vec<_>>().join(", ");
    format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {CLUSTER}}}\nspec:\n  hosts:\n{}  roleGroups: \
         {{master: [node1], worker: [{workers}]}}\n  kubernetes: {{version: v1.34.4}}\n",
        (1..=hosts).map(host).collect::<String>()
    )
}

/// One for all tests of this program: writing it costs a second.
fn bundle() -> &'static [u8] {
    static BUNDLE: OnceLock<Vec<u8>> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let (text, catalogue, folder) = (yaml(2), Catalogue::embedded(), scratch());
        let cluster = cluster::parse(&text).unwrap();
        let synthetic = SyntheticBundle::of(&cluster, &catalogue).unwrap();
        let used = catalogue.used_by(&require(&cluster, &catalogue).unwrap());
        let mut contents: Vec<(String, Vec<u8>)> = Vec::from([
            ("lock.yaml".into(), b"lock: 1\n".to_vec()),
            ("cluster.yaml".into(), text.into_bytes()),
            ("catalogue.json".into(), used.to_json().unwrap()),
            ("oci-layout".into(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
            ("index.json".into(), br#"{"schemaVersion":2,"manifests":[]}"#.to_vec()),
        ]);
        contents.extend(synthetic.blobs.iter().map(|(digest, bytes)| (members::blob_name(digest), bytes.clone())));
        let member = |(name, content): &(String, Vec<u8>)| Member {
            name: name.clone(),
            size: content.len() as u64,
            sha256: Digest::of(content),
        };
        let members = contents.iter().map(member).collect();
        let manifest = Manifest { lock: Digest::of(b"lock: 1\n"), members, ..synthetic.manifest };
        let inputs = contents.into_iter().map(|(name, content)| Input::bytes(name, content)).collect();
        let path = folder.path().join("demo.tar.zst");
        write(&path, &manifest, inputs, &Options::default(), &|_, _| {}).unwrap();
        fs::read(path).unwrap()
    })
}

impl Site {
    /// Good hosts, node1 with all roles or with a worker beside it.
    pub fn of(count: u8) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = scratch();
        fs::write(folder.path().join("demo.tar.zst"), bundle()).unwrap();
        for hosts in 1..=2 {
            fs::write(folder.path().join(format!("{hosts}.yaml")), yaml(hosts)).unwrap();
        }
        let shared = folder.path().join("(cluster)");
        let mut hosts = BTreeMap::new();
        for number in 1..=count {
            let (name, host) = (format!("node{number}"), Host::good(&format!("node{number}"), number + 10));
            let root = host.machine().root().to_owned();
            RootedSystem::new(&root).share(&shared).unwrap();
            // Folders that every system has (FHS 3.0).
            for folder in ["opt", "var/log", "usr/local/bin", "srv", "root"] {
                fs::create_dir_all(root.join(folder)).unwrap();
            }
            // The fakes of services write what kubexm remembers of units, and the agent comes with a link.
            fs::remove_dir_all(root.join("var/lib/kubexm")).unwrap();
            let _ = fs::remove_file(root.join(AGENT.trim_start_matches('/')));
            hosts.insert(name, host);
        }
        let roots = hosts.iter().map(|(name, host)| (name.clone(), host.machine().root().to_owned())).collect();
        let controller =
            Controller { tool: "test".into(), name: "here".into(), agent: Path::new("/nowhere").to_owned() };
        Self {
            home: Home::new(folder.path().join("home"), None, None),
            folder,
            hosts,
            connector: Rooted { roots, ..Rooted::default() },
            events: Recorder::default(),
            answers: Answers,
            controller,
            cancel: CancellationToken::new(),
            before: BTreeMap::new(),
            held: Vec::new(),
        }
    }

    pub fn session(&self) -> Session<'_> {
        Session {
            home: &self.home,
            events: &self.events,
            confirm: &self.answers,
            credentials: &NoSecrets,
            connector: &self.connector,
            clock: &SystemClock,
            file_systems: &Mounted,
            controller: &self.controller,
            cancel: self.cancel.clone(),
        }
    }

    /// The agent is killed in the middle of this step.
    pub fn kill_agent_in(&self, step: &str, comes_back: bool) {
        *self.connector.death.kill.lock().unwrap() = Some(Kill { step: step.to_owned(), comes_back });
    }

    pub fn host(&self, name: &str) -> &Host {
        &self.hosts[name]
    }

    /// Every warning so far.
    pub fn warnings(&self) -> Vec<String> {
        let warning = |event: Event| match event.kind {
            EventKind::Warning { text } => Some(text),
            _ => None,
        };
        self.events.events().into_iter().filter_map(warning).collect()
    }

    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    /// Where a path of a host really is.
    pub fn at(&self, host: &str, path: &str) -> PathBuf {
        self.hosts[host].machine().path(path)
    }

    pub fn bundle(&self) -> PathBuf {
        self.folder.path().join("demo.tar.zst")
    }

    /// cluster.yaml with the first so many hosts.
    pub fn yaml(&self, hosts: usize) -> PathBuf {
        self.folder.path().join(format!("{hosts}.yaml"))
    }

    /// Writes bytes with a mode and an owner, in folders that may not exist.
    pub fn put(&self, path: &str, bytes: impl AsRef<[u8]>, mode: u32, owner: u32) {
        let real = self.at("node1", path);
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        fs::write(&real, bytes).unwrap();
        chown(&real, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&real, Permissions::from_mode(mode)).unwrap();
    }

    /// Makes an empty folder.
    pub fn folder(&self, path: &str, mode: u32, owner: u32) {
        let real = self.at("node1", path);
        fs::create_dir_all(&real).unwrap();
        chown(&real, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&real, Permissions::from_mode(mode)).unwrap();
    }

    /// Makes a link; its target is a path of this machine, or relative.
    pub fn link(&self, path: &str, target: impl AsRef<OsStr>) {
        let real = self.at("node1", path);
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&real);
        symlink(target.as_ref(), real).unwrap();
    }

    /// Mounts something, as far as the fake kernel's table tells.
    pub fn mount(&self, line: &str) {
        let (host, path) = (self.host("node1"), "/proc/self/mountinfo");
        host.put(path, &(host.read(path) + line + "\n"));
    }

    /// The operator edits a file of node1 now, and at the end it must have another content: what is kubexm's is gone.
    pub fn edit(&mut self, path: &str, edit: impl Fn(Vec<u8>) -> Vec<u8>, end: impl AsRef<[u8]>) {
        let real = self.at("node1", path);
        let now = fs::read(&real).unwrap();
        fs::write(&real, end).unwrap();
        self.remember_also(&[path]);
        fs::write(&real, edit(now)).unwrap();
    }

    /// Nobody can change, replace or remove this file of node1 (chattr(1)) until the test ends.
    pub fn immutable(&mut self, path: &str) {
        let file = fs::File::open(self.at("node1", path)).unwrap();
        rustix::fs::ioctl_setflags(&file, rustix::fs::IFlags::IMMUTABLE).unwrap();
        self.hold(Immutable(file));
    }

    /// Keeps a file open until the end of the test, such as a lock.
    pub fn hold(&mut self, file: impl Send + Sync + 'static) {
        self.held.push(Box::new(file));
    }

    /// Makes the registry of every host serve the images of a plan.
    pub fn serve(&self, plan: &kubexm_plan::Plan) {
        for host in self.hosts.values() {
            RootedSystem::new(host.machine().root()).serve_images_of(plan).unwrap();
        }
    }

    /// What is on every host now is what must be there at the end.
    pub fn remember(&mut self) {
        self.before = self.pictures();
    }

    /// What is on every host, once no agent is at work: that of a controller that died ends the op it is at.
    fn pictures(&self) -> BTreeMap<String, Picture> {
        let until = Instant::now() + Duration::from_secs(60);
        // Each link, and each op it has begun, has a machine, which shares this with the connector.
        while Arc::strong_count(&self.connector.death) > 1 {
            assert!(Instant::now() < until, "an op has not ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.hosts.iter().map(|(name, host)| (name.clone(), picture::of(host.machine().root()))).collect()
    }

    /// The same of these paths alone, with all below them: the operator's work since.
    pub fn remember_also(&mut self, paths: &[&str]) {
        for (host, picture) in self.pictures() {
            let within = |path: &String| paths.iter().any(|one| Path::new(path).starts_with(one));
            let before = self.before.entry(host).or_default();
            before.retain(|path, _| !within(path));
            before.extend(picture.into_iter().filter(|(path, _)| within(path)));
        }
    }

    /// What is not as it was; of some paths with all below them, or of everything.
    pub fn lost(&self, only: Option<&[&str]>) -> Vec<String> {
        let now = self.pictures();
        let of = |pictures: &BTreeMap<String, Picture>, host: &String| -> Picture {
            let within = |path: &str| only.is_none_or(|only| only.iter().any(|one| Path::new(path).starts_with(one)));
            pictures[host].iter().filter(|(path, _)| within(path)).map(|(p, what)| (p.clone(), what.clone())).collect()
        };
        let mut lost = Vec::new();
        for host in self.hosts.keys() {
            let differences = picture::differences(&of(&now, host), &of(&self.before, host));
            lost.extend(differences.into_iter().map(|line| format!("{host}: {line}")));
        }
        lost
    }
}
