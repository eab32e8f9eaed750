//! Who announces a router id by VRRP in a network of this host: keepalived of another cluster, or a router.
//!
//! Announcements go to a group of the network (RFC 9568, 5.1.1.2). Those that keepalived sends to single peers, as kubexm's does, reach only
//! these.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use kubexm_plan::mesh::RouterAdvert;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with, sockopt};

/// The protocol's number.
const VRRP: u32 = 112;
/// Whom routers tell.
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
/// The usual pause between two announcements is one second.
const LISTENED: Duration = Duration::from_secs(3);
/// Announcers that are reported; one is enough to choose another id.
const MOST: usize = 8;
/// Addresses of one that are reported.
const MOST_ADDRESSES: usize = 20;

/// Listens for some seconds in the network that leads to `towards`. With IPv6 nothing is heard.
pub fn heard(router: u8, towards: IpAddr) -> std::io::Result<Vec<RouterAdvert>> {
    let Some(own) = source(towards)? else { return Ok(Vec::new()) };
    let socket = listen(own)?;
    let (begun, mut found) = (Instant::now(), Vec::new());
    while found.len() < MOST {
        let Some(left) = LISTENED.checked_sub(begun.elapsed()) else { break };
        let Some(packet) = receive(&socket, left)? else { break };
        let other = advert(&packet).filter(|advert| advert.router == router && advert.from != own);
        found.extend(other.filter(|advert| !found.contains(advert)));
    }
    Ok(found)
}

/// This host's own address in that network.
fn source(towards: IpAddr) -> std::io::Result<Option<Ipv4Addr>> {
    let IpAddr::V4(towards) = towards else { return Ok(None) };
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // Nothing is sent: the kernel chooses the address.
    socket.connect(SocketAddr::from((towards, 9)))?;
    Ok(match socket.local_addr()?.ip() {
        IpAddr::V4(own) => Some(own),
        IpAddr::V6(_) => None,
    })
}

fn listen(own: Ipv4Addr) -> std::io::Result<OwnedFd> {
    let protocol = std::num::NonZeroU32::new(VRRP).map(Protocol::from_raw);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::RAW, flags, protocol)?;
    sockopt::set_ip_add_membership(&socket, &GROUP, &own)?;
    Ok(socket)
}

fn receive(socket: &OwnedFd, most: Duration) -> std::io::Result<Option<Vec<u8>>> {
    let limit = Timespec::try_from(most).map_err(std::io::Error::other)?;
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&limit)) {
        Ok(0) => return Ok(None),
        Ok(_) | Err(Errno::INTR) => (),
        Err(error) => return Err(error.into()),
    }
    let mut packet = vec![0; 1500];
    match recv(socket, &mut packet[..], RecvFlags::empty()) {
        Ok((read, _)) => {
            packet.truncate(read);
            Ok(Some(packet))
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(Some(Vec::new())),
        Err(error) => Err(error.into()),
    }
}

/// What a packet of IPv4 from anybody in the network says: version 2 (RFC 3768) and 3 have the same beginning, and eight bytes before the addresses.
pub fn advert(packet: &[u8]) -> Option<RouterAdvert> {
    /// Version, and the type of an announcement.
    const ADVERTS: [u8; 2] = [0x21, 0x31];
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let (from, body) = (packet.get(12..16)?, packet.get(header.max(20)..)?);
    let [kind, router, _priority, count, _, _, _, _] = *body.first_chunk()?;
    if !ADVERTS.contains(&kind) {
        return None;
    }
    let addresses = body[8..].chunks_exact(4).take(usize::from(count).min(MOST_ADDRESSES)).filter_map(address);
    Some(RouterAdvert { from: address(from)?, router, addresses: addresses.collect() })
}

fn address(bytes: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

    /// As keepalived sends it: a header of IPv4, and the announcement.
    fn packet(version: u8, addresses: &[[u8; 4]]) -> Vec<u8> {
        let mut packet = vec![0x45, 0xc0, 0, 40, 0, 1, 0, 0, 255, 112, 0, 0, 10, 0, 0, 9, 224, 0, 0, 18];
        packet.extend([version << 4 | 1, 51, 100, addresses.len() as u8, 0, 1, 0xab, 0xcd]);
        packet.extend(addresses.iter().flatten());
        packet
    }

    #[test]
    fn both_versions_are_read_and_what_is_cut_off_says_nothing_wrong() {
        let all = [[10, 0, 0, 100], [10, 0, 0, 101]];
        let wanted = RouterAdvert { from: FROM, router: 51, addresses: all.map(Ipv4Addr::from).to_vec() };
        for version in [2, 3] {
            let mut whole = packet(version, &all);
            assert_eq!(advert(&whole), Some(wanted.clone()));
            // Version 2 may have a password behind them.
            whole.extend([0; 8]);
            assert_eq!(advert(&whole), Some(wanted.clone()));
            for end in 0..28 {
                assert_eq!(advert(&whole[..end]), None, "{end}");
            }
        }
        let mut options = packet(3, &all);
        options[0] = 0x46;
        options.splice(20..20, [0; 4]);
        assert_eq!(advert(&options), Some(wanted));
        let mut other = packet(3, &all);
        other[20] = 0x32;
        assert_eq!(advert(&other), None);
    }

    #[test]
    fn nobody_is_heard_by_ipv6() {
        assert_eq!(heard(51, "fd00::1".parse().expect("an address")).expect("no socket is needed"), Vec::new());
    }
}
