//! Asks the kernel to remove a datapath of Open vSwitch, by generic netlink (Linux' `include/uapi/linux/genetlink.h`,
//! `include/uapi/linux/openvswitch.h`, `Documentation/userspace-api/netlink/intro.rst`). No program of a host does that: `ip link delete` is
//! not possible, and `ovs-dpctl` is in a pod's image only.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with};

use crate::OpError;

/// `GENL_ID_CTRL`, and its command and attributes for the number of a family.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `OVS_DATAPATH_FAMILY`, `OVS_DATAPATH_VERSION`, `OVS_DP_CMD_DEL`, `OVS_DP_ATTR_NAME`.
const DATAPATH: &str = "ovs_datapath";
const DATAPATH_VERSION: u8 = 2;
const DELETE: u8 = 2;
const NAME: u16 = 1;
/// `NLMSG_ERROR`; `NLM_F_REQUEST`, `NLM_F_ACK`.
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
/// Sizes of `nlmsghdr`, `genlmsghdr` and `nlattr`, in bytes.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const ATTRIBUTE: usize = 4;
/// How long the kernel may take: it waits for packets that are on their way.
const PATIENCE: Duration = Duration::from_secs(30);

/// Removes a datapath with its ports. One that is not there is removed.
pub(crate) fn delete_datapath(name: &str) -> Result<(), OpError> {
    match delete(DATAPATH, name) {
        // Without the module there is no family, and without the datapath no device of its name.
        Ok(()) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
        Err(error) => Err(OpError::other(format!(
            "the kernel does not remove the datapath {name} of Open vSwitch: {error}; see `dmesg`, or reboot the host, and run again"
        ))),
    }
}

fn delete(family: &str, name: &str) -> Result<(), Errno> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(GENERIC))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    let asked = message((CONTROL, REQUEST, 1), (GET_FAMILY, 1), &attribute(FAMILY_NAME, family));
    let answer = ask(&socket, &asked, 1)?;
    let family = family_in(&answer).ok_or(Errno::PROTO)?;
    ask(&socket, &deletion(family, name), 2).map(drop)
}

fn deletion(family: u16, name: &str) -> Vec<u8> {
    // `struct ovs_header`: the number of the device, which the name stands for.
    let mut body = vec![0; 4];
    body.extend(attribute(NAME, name));
    message((family, REQUEST | ACK, 2), (DELETE, DATAPATH_VERSION), &body)
}

/// Sends a message, and returns what is in its answer after the header; nothing of a plain acknowledgement.
fn ask(socket: &OwnedFd, message: &[u8], sequence: u32) -> Result<Vec<u8>, Errno> {
    sendto(socket, message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut buffer = vec![0; 32 << 10];
    loop {
        let (_, size) = recv(socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        if let Some(answer) = answer_in(buffer.get(..size).unwrap_or_default(), sequence) {
            return answer;
        }
    }
}

/// The answer with this number: what is in it, or the error that it is.
fn answer_in(mut bytes: &[u8], sequence: u32) -> Option<Result<Vec<u8>, Errno>> {
    while bytes.len() >= HEADER {
        let size = usize::try_from(u32_at(bytes, 0)?).ok()?;
        let body = bytes.get(HEADER..size)?;
        if u32_at(bytes, 8)? == sequence {
            if u16_at(bytes, 4)? != ERROR {
                return Some(Ok(body.to_vec()));
            }
            let code = u32_at(body, 0)?.cast_signed();
            return Some(if code == 0 { Ok(Vec::new()) } else { Err(Errno::from_raw_os_error(code.saturating_neg())) });
        }
        bytes = bytes.get(aligned(size)..).unwrap_or_default();
    }
    None
}

/// The family's number in an answer of the kernel's control family.
fn family_in(body: &[u8]) -> Option<u16> {
    let mut attributes = body.get(GENERIC_HEADER..)?;
    loop {
        let (size, kind) = (usize::from(u16_at(attributes, 0)?), u16_at(attributes, 2)?);
        if kind == FAMILY_ID {
            return u16_at(attributes.get(..size)?, ATTRIBUTE);
        }
        // Shorter than its own header would be read for ever.
        attributes = attributes.get(aligned(size.max(ATTRIBUTE))..)?;
    }
}

/// `nlmsghdr` with type, flags and number, and `genlmsghdr` with command and version.
fn message((kind, flags, sequence): (u16, u16, u32), (command, version): (u8, u8), body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(HEADER + GENERIC_HEADER + body.len()).unwrap_or(u32::MAX);
    let mut bytes = size.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    // The kernel fills in whose it is.
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend([command, version, 0, 0]);
    bytes.extend(body);
    bytes
}

/// A text with its zero at the end.
fn attribute(kind: u16, text: &str) -> Vec<u8> {
    let size = ATTRIBUTE + text.len() + 1;
    let mut bytes = u16::try_from(size).unwrap_or(u16::MAX).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(text.as_bytes());
    bytes.resize(aligned(size), 0);
    bytes
}

/// Messages and attributes begin at multiples of four.
const fn aligned(size: usize) -> usize {
    size.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_family_has_nothing_to_remove() {
        // The real kernel's own answer: its control family is everywhere, and no module is called so.
        assert_eq!(delete("kubexm_none", "kubexm-none"), Err(Errno::NOENT));
    }

    #[test]
    fn what_is_asked_is_a_datapath_by_its_name() {
        let mut wanted = vec![16 + 4 + 4 + 16, 0, 0, 0, 0x2a, 0, 5, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        wanted.extend([2, 2, 0, 0, 0, 0, 0, 0, 15, 0, 1, 0]);
        wanted.extend(b"ovs-system\0\0");
        if cfg!(target_endian = "little") {
            assert_eq!(deletion(0x2a, "ovs-system"), wanted);
        }
    }

    #[test]
    fn a_family_is_found_after_other_attributes_and_nothing_in_what_is_cut_off() {
        let mut body = vec![1, 2, 0, 0];
        body.extend(attribute(FAMILY_NAME, DATAPATH));
        body.extend([6, 0, 1, 0, 0x2a, 0, 0, 0].map(|byte: u8| byte));
        assert_eq!(family_in(&body), Some(0x2a));
        for end in 0..body.len() - 2 {
            assert_eq!(family_in(&body[..end]), None, "{end}");
        }
        assert_eq!(family_in(&[1, 2, 0, 0, 0, 0, 7, 0]), None, "an attribute without a size");
    }

    #[test]
    fn an_answer_is_an_error_an_acknowledgement_or_what_was_asked_for() {
        let of = |kind: u16, body: &[u8], sequence: u32| {
            let mut bytes = message((kind, 0, sequence), (0, 0), &[]);
            bytes.truncate(HEADER);
            bytes.extend(body);
            let size = u32::try_from(bytes.len()).unwrap_or_default().to_ne_bytes();
            bytes.splice(..4, size);
            bytes
        };
        let refused = of(ERROR, &(-19_i32).to_ne_bytes(), 2);
        assert_eq!(answer_in(&refused, 2), Some(Err(Errno::NODEV)));
        assert_eq!(answer_in(&of(ERROR, &0_i32.to_ne_bytes(), 2), 2), Some(Ok(Vec::new())));
        let mut both = of(CONTROL, b"other", 7);
        both.resize(aligned(both.len()), 0);
        both.extend(of(CONTROL, b"this", 2));
        assert_eq!(answer_in(&both, 2), Some(Ok(b"this".to_vec())));
        assert_eq!(answer_in(&both, 3), None);
        assert_eq!(answer_in(&both[..HEADER + 2], 7), None);
    }
}
