//! A root of its own with real programs in it: an overlay over the lab's bare host (or over this machine), in a mount and a network
//! namespace that a holder keeps. What is done there is in memory, and gone with the holder; nothing of this machine changes.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubexm_ops::fake::RootedSystem;
use kubexm_ops::system::{
    ActContext, Head, HttpsAnswer, HttpsRequest, HttpsServer, Kernel, Output, Program, PushRequest, Space, System,
};
use kubexm_ops::{Machine, OpError};
use kubexm_plan::facts::Interface;
use rustix::process::{Pid, Signal, kill_process_group};

/// Programs that are run for real; the others are the fake's.
const REAL: [&str; 6] = ["apt-get", "dpkg", "dpkg-query", "systemctl", "rpm", "dnf"];

/// The lab's bare host: Debian 12 as `scripts/lab build` makes it.
pub fn bare() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    let lab = std::env::var_os("KUBEXM_LAB").map_or_else(|| cache.join("kubexm-lab"), PathBuf::from);
    let base = lab.join("base-bare");
    assert!(base.join("usr/bin/apt-get").is_file(), "{} is needed: run `scripts/lab build`", base.display());
    base
}

/// A root that lives as long as this.
pub struct Root {
    pub machine: Machine,
    pub system: Arc<Private>,
    holder: Child,
}

impl Root {
    /// Over a folder with the root file system of a host.
    pub fn over(lower: &Path) -> Self {
        let script = "mount --make-rprivate / && mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work /mnt/root && \
                      mount -t overlay none -o lowerdir=\"$1\",upperdir=/mnt/upper,workdir=/mnt/work /mnt/root && \
                      mount -t tmpfs none /mnt/root/tmp && mount -t tmpfs none /mnt/root/run && \
                      mount -t proc none /mnt/root/proc && mount --rbind /dev /mnt/root/dev && \
                      rm -rf /mnt/root/var/lib/kubexm && echo ready && exec cat";
        let mut holder = Command::new("unshare")
            .args(["--mount", "--net", "sh", "-c", script, "sh"])
            .arg(lower)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare: tests of real package managers are run by root");
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n", "the private root could not be made: is this root?");
        let root = PathBuf::from(format!("/proc/{}/root/mnt/root", holder.id()));
        let system = Arc::new(Private {
            holder: holder.id(),
            rooted: RootedSystem::new(&root),
            root: root.clone(),
            cut: Mutex::default(),
            ran: Mutex::default(),
            acted: Mutex::default(),
        });
        let act = ActContext { run: "run".to_owned(), step: "node1/packages.install".to_owned() };
        let machine = Machine::with_system(&root, Arc::clone(&system) as Arc<dyn System>).with_act(act);
        Self { machine, system, holder }
    }

    /// What a program of the root says; it must end well.
    pub fn says(&self, program: &str, args: &[&str]) -> String {
        let output = self.system.real(&Program::new(program).args(args.iter().copied())).expect("a program");
        assert_eq!(output.code, 0, "{program} {args:?}: {output:?}");
        output.stdout()
    }

    /// What a program of the root says, however it ends.
    pub fn tells(&self, program: &str, args: &[&str]) -> String {
        self.system.real(&Program::new(program).args(args.iter().copied())).expect("a program").stdout()
    }

    pub fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let real = self.machine.path(path);
        std::fs::create_dir_all(real.parent().expect("a parent")).expect("folders");
        std::fs::write(real, text).expect("a file");
    }

    pub fn has(&self, path: &str) -> bool {
        self.machine.path(path).symlink_metadata().is_ok()
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.machine.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Does something that dies as an agent would with its machine: what is cut ends the thread, and nothing after it is done.
    pub fn dies_in<T: Send>(&self, work: impl FnOnce() -> T + Send) -> std::thread::Result<T> {
        std::thread::scope(|scope| scope.spawn(work).join())
    }

    /// The next program that installs or takes away is killed with all that it started as soon as this path is there.
    pub fn cut_when(&self, path: &str) {
        *self.system.cut.lock().expect("a lock") = Some(path.to_owned());
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Whether a program changes what is installed, and does not only say what it would do.
pub fn changes(program: &Program) -> bool {
    let has = |words: &[&str]| program.args.iter().any(|arg| words.contains(&arg.as_str()));
    has(&["install", "--install", "--purge", "--remove", "--erase", "--configure", "--import"])
        && !has(&["--simulate", "--no-act", "--test", "--assumeno"])
}

/// Package managers are real and in the root, the rest is the fake's.
#[derive(Debug)]
pub struct Private {
    holder: u32,
    root: PathBuf,
    rooted: RootedSystem,
    cut: Mutex<Option<String>>,
    /// What was run, with its arguments.
    pub ran: Mutex<Vec<String>>,
    /// What was run as a unit of its own, and how long it may take.
    pub acted: Mutex<Vec<(String, Duration)>>,
}

impl Private {
    fn real(&self, program: &Program) -> Result<Output, OpError> {
        self.ran.lock().expect("a lock").push(program.to_string());
        let child = Command::new("nsenter")
            .args([&format!("--target={}", self.holder), "--mount", "--net", "chroot", "/mnt/root", &program.name])
            .args(&program.args)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .envs([("HOME", "/root"), ("LC_ALL", "C.UTF-8"), ("DEBIAN_FRONTEND", "noninteractive")])
            .envs(program.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("nsenter");
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        let cut = self.cut.lock().expect("a lock").clone();
        let watched = cut.filter(|_| changes(program));
        let ended = Arc::new(AtomicBool::new(false));
        let killer = watched.map(|path| {
            let (path, ended) = (self.root.join(path.trim_start_matches('/')), Arc::clone(&ended));
            std::thread::spawn(move || {
                while !path.exists() {
                    if ended.load(Ordering::SeqCst) {
                        return false;
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                // It may have come to its end by itself in this moment.
                let _ = kill_process_group(group, Signal::KILL);
                true
            })
        });
        let output = child.wait_with_output().expect("an output");
        ended.store(true, Ordering::SeqCst);
        if killer.is_some_and(|killer| killer.join().expect("the killer")) {
            *self.cut.lock().expect("a lock") = None;
            std::panic::resume_unwind(Box::new("killed"));
        }
        Ok(Output { code: output.status.code().unwrap_or(137), stdout: output.stdout, stderr: output.stderr })
    }
}

impl System for Private {
    fn run(&self, program: &Program) -> Result<Output, OpError> {
        // No systemd runs there: what is enabled its program knows from files, what runs it does not.
        let asks = program.args.first().is_some_and(|arg| arg == "show" || arg == "daemon-reload");
        if REAL.contains(&program.name.as_str()) && !asks { self.real(program) } else { self.rooted.run(program) }
    }

    fn run_act(&self, _: &ActContext, program: &Program) -> Result<Output, OpError> {
        self.acted.lock().expect("a lock").push((program.to_string(), program.timeout));
        self.run(program)
    }

    fn hostname(&self) -> Result<String, OpError> {
        self.rooted.hostname()
    }

    fn set_hostname(&self, name: &str) -> Result<(), OpError> {
        self.rooted.set_hostname(name)
    }

    fn kernel(&self) -> Result<Kernel, OpError> {
        self.rooted.kernel()
    }

    fn space(&self, path: &str) -> Result<Space, OpError> {
        self.rooted.space(path)
    }

    fn delete_datapath(&self, name: &str) -> Result<(), OpError> {
        self.rooted.delete_datapath(name)
    }
    fn write_us(&self, folder: &str) -> Result<Option<u64>, OpError> {
        self.rooted.write_us(folder)
    }

    fn interfaces(&self) -> Result<Vec<Interface>, OpError> {
        self.rooted.interfaces()
    }

    fn https_get(&self, server: &HttpsServer<'_>) -> Result<u16, OpError> {
        self.rooted.https_get(server)
    }

    fn https_heads(&self, server: &HttpsServer<'_>, paths: &[String]) -> Result<Vec<Head>, OpError> {
        self.rooted.https_heads(server, paths)
    }

    fn http_get(&self, port: u16) -> Result<String, OpError> {
        self.rooted.http_get(port)
    }

    fn https_request(&self, request: &HttpsRequest<'_>) -> Result<HttpsAnswer, OpError> {
        self.rooted.https_request(request)
    }

    fn push_images(&self, request: &PushRequest<'_>) -> Result<String, OpError> {
        self.rooted.push_images(request)
    }

    fn pod_network(&self, pid: u32, name: &str, dns: &str, service: &str) -> Result<String, OpError> {
        self.rooted.pod_network(pid, name, dns, service)
    }

    fn host_network(&self, name: &str, dns: &str, service: &str) -> Result<String, OpError> {
        self.rooted.host_network(name, dns, service)
    }

    fn dns_addresses(
        &self,
        servers: &[std::net::IpAddr],
        names: &[String],
        limit: std::time::Duration,
    ) -> std::collections::BTreeMap<String, (std::net::IpAddr, std::net::IpAddr)> {
        self.rooted.dns_addresses(servers, names, limit)
    }

    fn signal(&self, pid: u32, kill: bool) -> Result<(), OpError> {
        self.rooted.signal(pid, kill)
    }

    fn is_real(&self) -> bool {
        false
    }
}
