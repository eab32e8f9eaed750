//! Tests connectivity: this host listens on ports that will be used later, and dials the other hosts.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kubexm_ops::Machine;
use kubexm_ops::probe::{authority, pod_address, vrrp};
use kubexm_ops::system::Program;
use kubexm_plan::mesh::{ConnectionCheck, ConnectionResult, PodAddress, Port, Protocol, RouterAdvert};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Timeout of a TCP connection.
const CONNECT: Duration = Duration::from_secs(3);
/// Timeout of one echo over UDP, which may be lost.
const ECHO: Duration = Duration::from_secs(1);
/// Datagrams sent before a UDP port counts as blocked.
const TRIES: usize = 3;
/// How long a caller may stay connected.
const STAY: Duration = Duration::from_secs(5);
/// Parallel dials; well below the limit of open files.
const PARALLEL: usize = 256;
/// Connections that are answered at the same time; more wait in the system's queue, which is a connection for who dials.
const CALLERS: usize = 256;
/// Prefix of every question, so that stray datagrams of another protocol get no echo.
const GREETING: &[u8; 12] = b"kubexm-mesh ";
/// Prefix of every answer: it is no question, or two listeners would answer each other without end.
const ECHOED: &[u8; 12] = b"kubexm-echo ";
const NONCE: usize = GREETING.len() + 8;

/// Open listeners. Dropping it closes them all.
pub(super) struct Listening(Option<Runtime>);

impl Listening {
    /// Listens on those of these ports that are free; none if there are none. A port that is in use has another
    /// listener.
    pub(super) fn on(ports: &[Port]) -> Result<Option<Self>, String> {
        if ports.is_empty() {
            return Ok(None);
        }
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(starting)?;
        let listening = Self(Some(runtime));
        let Some(runtime) = &listening.0 else { return Ok(None) };
        // Each family by itself: a port that is in use in one may be free in the other.
        let families = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
        for (port, any) in ports.iter().flat_map(|port| families.map(|any| (port, any))) {
            let bound = runtime.block_on(async { listen(SocketAddr::from((any, port.number)), port.protocol) });
            match bound {
                Ok(Socket::Tcp(socket)) => drop(runtime.spawn(accept(socket))),
                Ok(Socket::Udp(socket)) => drop(runtime.spawn(echo(socket))),
                Err(error) if error.kind() == ErrorKind::AddrInUse => (),
                // A kernel without IPv6 has nobody who dials it.
                Err(error) if any.is_ipv6() => tracing::debug!(%error, %port, "cannot listen by IPv6"),
                Err(error) => return Err(format!("cannot listen on {port}: {error}")),
            }
        }
        Ok(Some(listening))
    }
}

enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

/// As tokio's `bind` does it, but that a socket of IPv6 leaves IPv4 alone.
fn listen(address: SocketAddr, protocol: Protocol) -> std::io::Result<Socket> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
    let (family, kind) = match (address, protocol) {
        (SocketAddr::V4(_), Protocol::Tcp) => (AddressFamily::INET, SocketType::STREAM),
        (SocketAddr::V4(_), Protocol::Udp) => (AddressFamily::INET, SocketType::DGRAM),
        (SocketAddr::V6(_), Protocol::Tcp) => (AddressFamily::INET6, SocketType::STREAM),
        (SocketAddr::V6(_), Protocol::Udp) => (AddressFamily::INET6, SocketType::DGRAM),
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(match protocol {
        Protocol::Tcp => {
            sockopt::set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &address)?;
            listen(&socket, 1024)?;
            Socket::Tcp(TcpListener::from_std(socket.into())?)
        }
        Protocol::Udp => {
            bind(&socket, &address)?;
            Socket::Udp(UdpSocket::from_std(socket.into())?)
        }
    })
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Its tasks only wait for the network; the ports are free after this.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(STAY);
        }
    }
}

async fn accept(listener: TcpListener) {
    let callers = Arc::new(Semaphore::new(CALLERS));
    loop {
        let Ok(permit) = Arc::clone(&callers).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(async move {
                let _permit = permit;
                timeout(STAY, answer(stream)).await
            })),
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Returns the nonce and lets the caller close first, so that no closed connection keeps the port in use here.
async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut nonce = [0; NONCE];
    stream.read_exact(&mut nonce).await?;
    if nonce.starts_with(GREETING) {
        stream.write_all(&nonce).await?;
    }
    let _ = stream.read(&mut nonce).await?;
    Ok(())
}

async fn echo(socket: UdpSocket) {
    let mut datagram = [0; NONCE + 1];
    loop {
        match socket.recv_from(&mut datagram).await {
            Ok((NONCE, from)) if datagram.starts_with(GREETING) => {
                datagram[..ECHOED.len()].copy_from_slice(ECHOED);
                let _ = socket.send_to(&datagram[..NONCE], from).await;
            }
            Ok(_) => (),
            // The sender refused an earlier echo; the socket can still be used.
            Err(error) => {
                tracing::debug!(%error, "a datagram could not be received");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// Dials all in parallel, and those as from a pod after them; the results are in the order of the dials.
pub(super) fn dial(dials: Vec<ConnectionCheck>) -> Result<Vec<ConnectionResult>, String> {
    let plain = dials.iter().filter(|dial| dial.pod.is_none()).cloned().collect();
    let mut plain = dial_from_here(plain)?.into_iter();
    let all = dials.into_iter().map(|dial| match dial.pod {
        Some(pod) => Some(ConnectionResult {
            blocked: dial_from_pod(&dial, &pod).err(),
            dial,
            neighbour: None,
            routers: Vec::new(),
        }),
        None => plain.next(),
    });
    Ok(all.flatten().collect())
}

/// A host on which this cannot be tried is not refused for it.
fn dial_from_pod(dial: &ConnectionCheck, pod: &PodAddress) -> Result<(), String> {
    match pod_address::connect(SocketAddr::from((dial.address, dial.port.number)), pod) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if error.kind() == ErrorKind::TimedOut => Err(dropped()),
        Ok(Err(error)) => Err(said(&error)),
        Err(error) => {
            tracing::info!(error = error.full(), "no connection as from a pod was tried");
            Ok(())
        }
    }
}

fn dropped() -> String {
    format!("no answer within {} s: the packets are dropped on the way", CONNECT.as_secs())
}

fn dial_from_here(dials: Vec<ConnectionCheck>) -> Result<Vec<ConnectionResult>, String> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(starting)?;
    Ok(runtime.block_on(async {
        let all = futures::stream::iter(dials).map(|dial| async move {
            let address = SocketAddr::from((dial.address, dial.port.number));
            let reached = async {
                match dial.port.protocol {
                    Protocol::Tcp => match dial.authority.clone() {
                        Some(ca) => has_certificate(address, ca).await,
                        None => dial_tcp(address).await,
                    },
                    Protocol::Udp => dial_udp(address).await,
                }
            };
            let (reached, routers) = tokio::join!(reached, heard(dial.router, address.ip()));
            let blocked = reached.err();
            let neighbour =
                if blocked.is_some() && dial.authority.is_none() { asked_anew(address).await } else { None };
            ConnectionResult { dial, blocked, neighbour, routers }
        });
        all.buffered(PARALLEL).collect().await
    }))
}

/// A host on which nobody can listen for them is not refused for it.
async fn heard(router: Option<u8>, towards: IpAddr) -> Vec<RouterAdvert> {
    let Some(router) = router else { return Vec::new() };
    let heard = tokio::task::spawn_blocking(move || vrrp::heard(router, towards)).await;
    heard.map_err(std::io::Error::other).flatten().unwrap_or_else(|error| {
        tracing::info!(%error, "no announcements of VRRP were listened for");
        Vec::new()
    })
}

/// Who answers for an address now: an entry may be of a machine that had it until a moment ago, so the kernel forgets it and asks
/// again.
async fn asked_anew(address: SocketAddr) -> Option<String> {
    let ip = address.ip();
    neighbour(ip)?;
    let forget = Program::new("ip").args(["neigh", "flush", "to", &ip.to_string()]).within(5);
    let forgotten = tokio::task::spawn_blocking(move || Machine::real().try_run(&forget)).await.ok()?.ok()?;
    if forgotten.code != 0 {
        return None;
    }
    // Blocked as before; the kernel asks who has the address.
    let _ = dial_tcp(address).await;
    neighbour(ip)
}

/// Who has answered for an address of IPv4 in this host's own networks: the kernel has asked before it sent the packets.
fn neighbour(address: IpAddr) -> Option<String> {
    neighbour_in(&std::fs::read_to_string("/proc/net/arp").ok()?, address)
}

/// From the text of /proc/net/arp: address, hardware type, flags, hardware address, mask, device.
fn neighbour_in(table: &str, address: IpAddr) -> Option<String> {
    /// The entry is complete (ATF_COM).
    const COMPLETE: u32 = 2;
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut rows = rows.filter(|row| row.first().and_then(|text| text.parse().ok()) == Some(address));
    rows.find_map(|row| {
        let flags = u32::from_str_radix(row.get(2)?.trim_start_matches("0x"), 16).ok()?;
        (flags & COMPLETE != 0).then(|| row.get(3).map(|text| (*text).to_owned())).flatten()
    })
}

/// A connection is sufficient: the listener may be a running service that does not know the nonce.
async fn dial_tcp(address: SocketAddr) -> Result<(), String> {
    match timeout(CONNECT, TcpStream::connect(address)).await {
        Ok(Ok(mut stream)) => {
            // kubexm's listener answers and then closes.
            let _ = stream.write_all(&nonce()).await;
            Ok(())
        }
        Ok(Err(error)) => Err(said(&error)),
        Err(_) => Err(dropped()),
    }
}

/// Whether who listens there has a certificate of this CA. Nothing but the beginning of a handshake is sent.
async fn has_certificate(address: SocketAddr, ca: String) -> Result<(), String> {
    let asked = tokio::task::spawn_blocking(move || authority::answers(address, &ca)).await;
    match asked.map_err(|error| error.to_string())? {
        None => Ok(()),
        Some(why) => Err(why),
    }
}

async fn dial_udp(address: SocketAddr) -> Result<(), String> {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let any = SocketAddr::from((any, 0));
    let socket = UdpSocket::bind(any).await.map_err(|error| said(&error))?;
    // A host with several addresses of IPv6 answers from another one than it was asked by: the nonce says whose answer it is. Only a
    // connected socket is told of a refusal, though.
    let connected = address.is_ipv4();
    if connected {
        socket.connect(address).await.map_err(|error| said(&error))?;
    }
    let nonce = nonce();
    let mut last = format!("no echo of {TRIES} datagrams: they are dropped on the way");
    for _ in 0..TRIES {
        let sent = if connected { socket.send(&nonce).await } else { socket.send_to(&nonce, address).await };
        if let Err(error) = sent {
            last = said(&error);
            tokio::time::sleep(ECHO / 10).await;
            continue;
        }
        let mut echo = [0; NONCE + 1];
        match timeout(ECHO, socket.recv(&mut echo)).await {
            Ok(Ok(NONCE)) if echo.starts_with(ECHOED) && echo[ECHOED.len()..].starts_with(&nonce[GREETING.len()..]) => {
                return Ok(());
            }
            Ok(Ok(_)) => "an answer other than the echo".clone_into(&mut last),
            Ok(Err(error)) => last = said(&error),
            Err(_) => (),
        }
    }
    Err(last)
}

/// Different in each process and call; it need not be secret.
fn nonce() -> [u8; NONCE] {
    use std::hash::{BuildHasher, RandomState};
    let mut nonce = [0; NONCE];
    nonce[..GREETING.len()].copy_from_slice(GREETING);
    nonce[GREETING.len()..].copy_from_slice(&RandomState::new().hash_one(GREETING).to_ne_bytes());
    nonce
}

/// In the terms of a firewall, so that a request can be written from it.
fn said(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "refused: a firewall rejects it, or nothing listens there".to_owned(),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            format!("{error}: no route, or a firewall rejects it")
        }
        ErrorKind::PermissionDenied => "not permitted: a rule on the connecting host itself drops it".to_owned(),
        _ => error.to_string(),
    }
}

fn starting(error: std::io::Error) -> String {
    format!("cannot start the connectivity check: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_entry_says_who_has_an_address() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                     10.77.0.100      0x1         0x2         52:54:00:00:00:64     *        eth0\n\
                     10.77.0.101      0x1         0x0         00:00:00:00:00:00     *        eth0\n";
        let of = |last| neighbour_in(table, Ipv4Addr::new(10, 77, 0, last).into());
        assert_eq!(of(100).as_deref(), Some("52:54:00:00:00:64"));
        assert_eq!((of(101), of(10)), (None, None));
    }

    fn free(protocol: Protocol) -> Port {
        let any = (Ipv4Addr::LOCALHOST, 0);
        let number = match protocol {
            Protocol::Tcp => std::net::TcpListener::bind(any).unwrap().local_addr(),
            Protocol::Udp => std::net::UdpSocket::bind(any).unwrap().local_addr(),
        };
        Port { protocol, number: number.unwrap().port() }
    }

    fn to(port: Port) -> ConnectionCheck {
        ConnectionCheck {
            to: "n2".to_owned(),
            address: Ipv4Addr::LOCALHOST.into(),
            port,
            pod: None,
            authority: None,
            router: None,
        }
    }

    fn blocked(ports: &[Port]) -> Vec<Option<String>> {
        dial(ports.iter().copied().map(to).collect()).unwrap().into_iter().map(|dialed| dialed.blocked).collect()
    }

    #[test]
    fn what_listens_is_reached_and_is_free_again_once_it_is_dropped() {
        let ports = [free(Protocol::Tcp), free(Protocol::Udp)];
        let before = blocked(&ports);
        assert!(before.iter().all(|blocked| blocked.as_deref().is_some_and(|b| b.contains("refused"))), "{before:?}");
        let listening = Listening::on(&ports).unwrap();
        assert_eq!(blocked(&ports), [None, None]);
        drop(listening);
        std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, ports[0].number)).unwrap();
        std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, ports[1].number)).unwrap();
    }

    #[test]
    fn a_port_is_reached_by_both_families() {
        if std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
            // A machine without IPv6 has nothing to try it with.
            return;
        }
        let ports = [free(Protocol::Tcp), free(Protocol::Udp)];
        let _listening = Listening::on(&ports).unwrap();
        let by = |address: IpAddr| ports.map(|port| ConnectionCheck { address, ..to(port) });
        let dials = by(Ipv4Addr::LOCALHOST.into()).into_iter().chain(by(Ipv6Addr::LOCALHOST.into())).collect();
        let results: Vec<_> = dial(dials).unwrap().into_iter().map(|dialed| dialed.blocked).collect();
        assert_eq!(results, [None, None, None, None]);
    }

    #[test]
    fn a_port_in_use_is_left_to_its_owner_and_counts_as_reachable() {
        let owner = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = Port { protocol: Protocol::Tcp, number: owner.local_addr().unwrap().port() };
        let _listening = Listening::on(&[port]).unwrap();
        assert_eq!(blocked(&[port]), [None]);
    }

    #[test]
    fn a_udp_port_that_swallows_what_comes_counts_as_blocked() {
        let silent = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = Port { protocol: Protocol::Udp, number: silent.local_addr().unwrap().port() };
        let blocked = blocked(&[port]);
        assert!(blocked[0].as_deref().is_some_and(|b| b.contains("no echo")), "{blocked:?}");
    }

    /// An answer with another host's address as its sender would else go to and fro between the two.
    #[test]
    fn a_datagram_of_another_protocol_and_an_echo_get_no_echo() {
        let port = free(Protocol::Udp);
        let _listening = Listening::on(&[port]).unwrap();
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let address = (Ipv4Addr::LOCALHOST, port.number);
        socket.send_to(b"any datagram of 20 b", address).unwrap();
        assert!(socket.recv(&mut [0; 64]).is_err());
        let mut echo = [0; NONCE];
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket.send_to(&nonce(), address).unwrap();
        assert_eq!(socket.recv(&mut echo).unwrap(), NONCE);
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        socket.send_to(&echo, address).unwrap();
        assert!(socket.recv(&mut [0; 64]).is_err());
    }
}
