//! The real system of this machine.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use kubexm_plan::facts::{Inodes, Interface};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::environment::{environment, find};
use crate::system::{
    ActContext, Head, HttpsAnswer, HttpsRequest, HttpsServer, Kernel, Output, Program, PushRequest, Space, System,
};
use crate::{Machine, OpError, fsio};

/// The most output of a program in bytes; more is an error, but of its standard error and where [`Program::may_be_cut_off`] says so the rest
/// is dropped.
const OUTPUT_LIMIT: u64 = 64 << 20;
/// How long descendants of an ended program may keep its output open.
const DRAIN: Duration = Duration::from_secs(5);

/// Programs of this machine, its kernel and its systemd.
#[derive(Clone, Copy, Debug)]
pub struct RealSystem;

impl Machine {
    /// The machine this program runs on.
    pub fn real() -> Self {
        Self::with_system("/", Arc::new(RealSystem))
    }
}

impl System for RealSystem {
    fn run(&self, program: &Program) -> Result<Output, OpError> {
        let mut command = Command::new(find(&program.name)?);
        command
            .args(&program.args)
            .env_clear()
            .envs(environment())
            .envs(program.env.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(if program.stdin.is_some() || !program.pieces.is_empty() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child =
            command.spawn().map_err(|source| OpError::Path { action: "run", path: program.to_string(), source })?;
        let feeder = feed(&mut child, program);
        let stdout = drain(child.stdout.take());
        let stderr = drain(child.stderr.take());
        let deadline = Instant::now() + program.timeout;
        let Some(status) = wait(&mut child, deadline)? else {
            kill(&mut child);
            return Err(OpError::other(format!(
                "`{program}` did not end within {} s and was killed",
                program.timeout.as_secs()
            )));
        };
        let fed = feeder.map_or(Ok(Ok(())), thread::JoinHandle::join);
        let left_open = |_| OpError::other(format!("`{program}` ended, but what it started holds its output open"));
        let stdout = stdout.recv_timeout(DRAIN).map_err(left_open)?;
        let stderr = stderr.recv_timeout(DRAIN).map_err(left_open)?;
        match fed {
            // The program's exit code already shows why it closed the pipe.
            Ok(Err(source)) if source.kind() != std::io::ErrorKind::BrokenPipe => {
                return Err(OpError::Path { action: "feed", path: program.to_string(), source });
            }
            _ => {}
        }
        let code = code(status);
        // What is cut off would be read as something else.
        if code == 0 && !program.cut_off && stdout.len() as u64 >= OUTPUT_LIMIT {
            return Err(OpError::other(format!(
                "`{program}` printed more than {} MiB, which is more than is read of a program: what it shows has to become smaller",
                OUTPUT_LIMIT >> 20
            )));
        }
        Ok(Output { code, stdout, stderr })
    }

    fn run_act(&self, act: &ActContext, program: &Program) -> Result<Output, OpError> {
        crate::transient::run(&Machine::real(), self, act, program)
    }

    fn hostname(&self) -> Result<String, OpError> {
        Ok(rustix::system::uname().nodename().to_string_lossy().into_owned())
    }

    fn set_hostname(&self, name: &str) -> Result<(), OpError> {
        rustix::system::sethostname(name.as_bytes()).map_err(|error| OpError::Path {
            action: "set",
            path: "the host name".to_owned(),
            source: error.into(),
        })
    }

    fn kernel(&self) -> Result<Kernel, OpError> {
        let uname = rustix::system::uname();
        Ok(Kernel {
            release: uname.release().to_string_lossy().into_owned(),
            machine: uname.machine().to_string_lossy().into_owned(),
            page_size: u64::try_from(rustix::param::page_size()).unwrap_or(4096),
            cpus: thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
        })
    }

    fn space(&self, path: &str) -> Result<Space, OpError> {
        space_of(Path::new(path))
    }

    fn write_us(&self, folder: &str) -> Result<Option<u64>, OpError> {
        Ok(crate::write_time::measure(Path::new(folder)))
    }

    fn delete_datapath(&self, name: &str) -> Result<(), OpError> {
        crate::open_vswitch::delete_datapath(name)
    }

    fn interfaces(&self) -> Result<Vec<Interface>, OpError> {
        crate::facts::interfaces::of_this_machine(self)
    }

    fn https_get(&self, server: &HttpsServer<'_>) -> Result<u16, OpError> {
        crate::probe::https::get(server)
    }

    fn https_heads(&self, server: &HttpsServer<'_>, paths: &[String]) -> Result<Vec<Head>, OpError> {
        crate::probe::https::heads(server, paths)
    }

    fn http_get(&self, port: u16) -> Result<String, OpError> {
        crate::probe::http::get(port)
    }

    fn https_request(&self, request: &HttpsRequest<'_>) -> Result<HttpsAnswer, OpError> {
        match request.over {
            Some(connections) => crate::probe::kept::request(connections, request),
            None => crate::probe::https::request(request),
        }
    }

    fn push_images(&self, request: &PushRequest<'_>) -> Result<String, OpError> {
        crate::push_images::push(request)
    }

    fn pod_network(&self, pid: u32, name: &str, dns: &str, service: &str) -> Result<String, OpError> {
        crate::probe::netns::check(pid, name, dns, service)
    }

    fn host_network(&self, name: &str, dns: &str, service: &str) -> Result<String, OpError> {
        crate::probe::netns::check_here(name, dns, service)
    }

    fn dns_addresses(
        &self,
        servers: &[IpAddr],
        names: &[String],
        limit: std::time::Duration,
    ) -> BTreeMap<String, (IpAddr, IpAddr)> {
        crate::probe::dns::addresses(servers, names, limit)
    }

    fn signal(&self, pid: u32, kill: bool) -> Result<(), OpError> {
        let signal = if kill { Signal::KILL } else { Signal::TERM };
        // 0 would be this process group, 1 the init process.
        let Some(process) = i32::try_from(pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw) else {
            return Err(OpError::other(format!(
                "{pid} is no process that may be ended; this is a fault of the program"
            )));
        };
        match rustix::process::kill_process(process, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(OpError::Path { action: "end", path: format!("process {pid}"), source: error.into() }),
        }
    }

    fn is_real(&self) -> bool {
        true
    }
}

/// Space of the file system of a path, or of its nearest existing parent.
pub(crate) fn space_of(path: &Path) -> Result<Space, OpError> {
    let found = rustix::fs::statvfs(fsio::existing(path)).map_err(|error| OpError::Path {
        action: "measure",
        path: path.display().to_string(),
        source: error.into(),
    })?;
    Ok(Space {
        free: found.f_bavail.saturating_mul(found.f_frsize),
        size: found.f_blocks.saturating_mul(found.f_frsize),
        inodes: (found.f_files > 0).then_some(Inodes { free: found.f_favail, total: found.f_files }),
    })
}

fn feed(child: &mut Child, program: &Program) -> Option<thread::JoinHandle<std::io::Result<()>>> {
    let mut pipe = child.stdin.take()?;
    let (input, pieces) = (program.stdin.clone().unwrap_or_default(), program.pieces.clone());
    Some(thread::spawn(move || {
        pipe.write_all(&input)?;
        pieces.iter().try_for_each(|piece| piece.write_to(&mut pipe))
    }))
}

fn drain<R: Read + Send + 'static>(pipe: Option<R>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // Output that was read before an error is still useful.
            let _ = pipe.by_ref().take(OUTPUT_LIMIT).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        // The receiver is gone if the program was killed.
        let _ = sender.send(bytes);
    });
    receiver
}

/// Waits until the program ends or its time is over: with a pidfd (Linux 5.3), else with increasing pauses.
fn wait(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>, OpError> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let ended = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut pause = Duration::from_micros(500);
    loop {
        let status = child.try_wait().map_err(|source| OpError::Path {
            action: "wait for",
            path: format!("process {}", child.id()),
            source,
        })?;
        if status.is_some() {
            return Ok(status);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        match &ended {
            Some(ended) => {
                let limit = Timespec::try_from(left.min(Duration::from_secs(1))).ok();
                // A signal to this process may interrupt the wait; then it is repeated.
                let _ = poll(&mut [PollFd::new(ended, PollFlags::IN)], limit.as_ref());
            }
            None => {
                thread::sleep(pause.min(left));
                pause = (pause * 2).min(Duration::from_millis(50));
            }
        }
    }
}

fn kill(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may just have ended; then there is nothing to kill.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
