//! A connection to this host as from one of its pods: a network namespace with an address of the pod network, joined to
//! the host by a pair of virtual links, as CNI plugins do it. A host's firewall that accepts the other hosts may still drop
//! what its own pods send: connections between hosts do not show that.
//!
//! The namespace belongs to a child process that ends with this one; the kernel removes the links with it, whatever
//! happens.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kubexm_plan::mesh::PodAddress;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::OpError;
use crate::environment::{environment, find};
use crate::real::RealSystem;
use crate::system::{Program, System as _};

/// Timeout of the connection.
const CONNECT: Duration = Duration::from_secs(3);
/// How long the child may take to have its namespace.
const START: Duration = Duration::from_secs(5);
/// The link's name inside the namespace.
const INSIDE: &str = "eth0";

/// Connects to `target`, an address of this host, from `from`. The outer error says why it could not be tried: a program
/// is missing, or the kernel allows no namespaces; the inner one, why there was no connection.
pub fn connect(target: SocketAddr, from: &PodAddress) -> Result<std::io::Result<()>, OpError> {
    let (own, peer) = (from.host.to_string(), from.pod.to_string());
    for address in [&own, &peer] {
        refuse_used(address)?;
    }
    let pod = Namespace::start()?;
    // The namespace's process has this name's number: two checks never share a link.
    let id = pod.child.id().to_string();
    let link = HostLink(format!("kubexm{id}"));
    let inside = ["nsenter", "--target", &id, "--net", "ip"];
    let commands: [&[&str]; 6] = [
        &["ip", "link", "add", &link.0, "type", "veth", "peer", "name", INSIDE, "netns", &id],
        &["ip", "address", "add", &own, "peer", &peer, "dev", &link.0],
        &["ip", "link", "set", &link.0, "up"],
        &[&inside[..], &["address", "add", &peer, "peer", &own, "dev", INSIDE]].concat(),
        &[&inside[..], &["link", "set", INSIDE, "up"]].concat(),
        &[&inside[..], &["route", "add", "default", "via", &own, "dev", INSIDE]].concat(),
    ];
    for command in commands {
        let Some((name, args)) = command.split_first() else { continue };
        let program = Program::new(name).args(args.iter().copied()).within(5);
        let output = RealSystem.run(&program)?;
        if output.code != 0 {
            return Err(OpError::other(format!("`{program}`: {}", String::from_utf8_lossy(&output.stderr).trim())));
        }
    }
    let path = format!("/proc/{id}/ns/net");
    let namespace = File::open(&path).map_err(OpError::path("open", &path))?;
    // Only this thread changes its namespace, and it ends.
    let connected = std::thread::spawn(move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| OpError::other(format!("the namespace {path} cannot be entered: {error}")))?;
        Ok(TcpStream::connect_timeout(&target, CONNECT).map(drop))
    });
    connected.join().map_err(|_| OpError::other("the connection from a pod's address ended unexpectedly"))?
}

/// Refuses an address that this host reaches by another route than the default one: packets to whoever has it would be lost
/// for the time of the check.
fn refuse_used(address: &str) -> Result<(), OpError> {
    let program = Program::new("ip").args(["-o", "-4", "route", "show", "to", "match", address]).within(5);
    let output = RealSystem.run(&program)?;
    let routes = String::from_utf8_lossy(&output.stdout).into_owned();
    match routes.lines().find(|route| !route.starts_with("default")) {
        _ if output.code != 0 => {
            Err(OpError::other(format!("`{program}`: {}", String::from_utf8_lossy(&output.stderr).trim())))
        }
        Some(route) => Err(OpError::other(format!("{address} has a route already: {}", route.trim()))),
        None => Ok(()),
    }
}

/// The host's end of the pair; it is deleted on drop.
struct HostLink(String);

impl Drop for HostLink {
    fn drop(&mut self) {
        // The kernel does it too, but only a while after the child has ended. It may not exist.
        let _ = RealSystem.run(&Program::new("ip").args(["link", "delete", &self.0]).within(5));
    }
}

/// A process with a network namespace of its own, which ends when its input is closed.
struct Namespace {
    child: Child,
}

impl Namespace {
    fn start() -> Result<Self, OpError> {
        let program = "unshare --net cat";
        let child = Command::new(find("unshare")?)
            .args(["--net", "cat"])
            .env_clear()
            .envs(environment())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| OpError::Path { action: "run", path: program.to_owned(), source })?;
        let mut namespace = Self { child };
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net"));
        // Of this thread: its namespace is the one that its children begin with.
        let own = of("thread-self").map_err(OpError::path("read", "/proc/thread-self/ns/net"))?;
        let until = Instant::now() + START;
        loop {
            let ended = namespace.child.try_wait().is_ok_and(|status| status.is_some());
            if ended || Instant::now() > until {
                return Err(OpError::other(format!("`{program}` makes no network namespace")));
            }
            if of(&namespace.child.id().to_string()).is_ok_and(|net| net != own) {
                return Ok(namespace);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{IpAddr, Ipv4Addr, TcpListener};

    use super::*;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 11));

    fn run(command: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        let output = RealSystem.run(&Program::new(words[0]).args(words[1..].iter().copied())).expect(command);
        assert_eq!(output.code, 0, "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs in a network of its own, which is a host's with one address.
    fn on_a_host(test: impl FnOnce() + Send + 'static) {
        let host = Namespace::start().expect("a namespace: these tests run as root");
        let namespace = File::open(format!("/proc/{}/ns/net", host.child.id())).expect("a namespace");
        let inside = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("inside");
            run("ip link set lo up");
            run(&format!("ip address add {HOST}/32 dev lo"));
            test();
        });
        if let Err(panic) = inside.join() {
            std::panic::resume_unwind(panic);
        }
    }

    fn connected() -> std::io::Result<()> {
        let listener = TcpListener::bind((HOST, 0)).expect("a listener");
        let from = PodAddress { pod: Ipv4Addr::new(10, 233, 127, 254), host: Ipv4Addr::new(10, 233, 127, 253) };
        connect(listener.local_addr().expect("an address"), &from).expect("tried")
    }

    #[test]
    fn a_pod_reaches_its_host_and_leaves_no_link_there() {
        on_a_host(|| {
            connected().expect("no firewall");
            let links = RealSystem.run(&Program::new("ip").args(["-brief", "link"])).expect("links");
            assert!(!String::from_utf8_lossy(&links.stdout).contains("kubexm"), "a link stays");
        });
    }

    #[test]
    fn a_firewall_that_lets_only_other_hosts_in_drops_it() {
        on_a_host(|| {
            run("iptables -A INPUT -i lo -j ACCEPT");
            run("iptables -A INPUT -s 10.77.0.0/24 -j ACCEPT");
            run("iptables -P INPUT DROP");
            assert_eq!(connected().expect_err("dropped").kind(), ErrorKind::TimedOut);
        });
    }
}
