//! Announcements of VRRP, as the kernel hands them out: on the loopback, from another of its addresses.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kubexm_ops::probe::vrrp;
use kubexm_plan::mesh::RouterAdvert;
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, bind, sendto, socket_with, sockopt};

const OWN: Ipv4Addr = Ipv4Addr::LOCALHOST;
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 77);
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
/// Version 3, an announcement for 10.9.8.7.
const fn announcement(router: u8) -> [u8; 12] {
    [0x31, router, 100, 1, 0, 100, 0, 0, 10, 9, 8, 7]
}

fn announces(from: Ipv4Addr, router: u8, until: &AtomicBool) {
    let protocol = std::num::NonZeroU32::new(112).map(Protocol::from_raw);
    let socket = socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, protocol)
        .expect("a raw socket, which root may have");
    bind(&socket, &SocketAddrV4::new(from, 0)).expect("an address of the loopback");
    sockopt::set_ip_multicast_if(&socket, &OWN).expect("the loopback");
    while !until.load(Ordering::Relaxed) {
        sendto(&socket, &announcement(router), SendFlags::empty(), &SocketAddrV4::new(GROUP, 0)).expect("sent");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn who_else_announces_a_router_id_is_heard_and_this_host_and_other_ids_are_not() {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| announces(OTHER, 51, &ended));
        scope.spawn(|| announces(OWN, 52, &ended));
        let listen = |router| scope.spawn(move || vrrp::heard(router, OWN.into()));
        let found = [listen(51), listen(52), listen(53)].map(|listening| listening.join().expect("listened"));
        ended.store(true, Ordering::Relaxed);
        let wanted = RouterAdvert { from: OTHER, router: 51, addresses: vec![[10, 9, 8, 7].into()] };
        let [other, own, nobody] = found.map(|found| found.expect("a socket"));
        assert_eq!((other, own, nobody), (vec![wanted], Vec::new(), Vec::new()));
    });
}
