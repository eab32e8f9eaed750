//! The jumps of `via`, through which a host is reached.

use serde_json::Value;

use super::{addresses, values};
use crate::cluster::Jump;
use crate::cluster::field::FieldType;
use crate::yaml::{At, Shape};

/// A jump as a mapping, or as `user@host:port` (ssh's `ProxyJump`).
pub(in crate::cluster) struct AnyJump;

impl FieldType for AnyJump {
    type Value = Jump;

    const SHAPE: Shape = Shape::Either(&Jump::SHAPE, &Shape::Text);

    fn read(at: &At<'_>) -> Option<Jump> {
        if at.is_mapping() { Jump::read(at) } else { at.parsed(short_jump) }
    }

    fn show(value: &Jump) -> Option<Value> {
        Jump::show(value)
    }
}

/// The most jumps to one host. Each is an SSH session inside of the one before, and the way to each of them is shown with every secret
/// that is used there: real networks have one or two.
const JUMPS: usize = 8;

/// All jumps on the way to a host.
pub(in crate::cluster) struct Jumps;

impl FieldType for Jumps {
    type Value = Vec<Jump>;

    const SHAPE: Shape = Vec::<AnyJump>::SHAPE;

    fn read(at: &At<'_>) -> Option<Vec<Jump>> {
        let count = if at.is_list() { at.list().len() } else { 0 };
        if count > JUMPS {
            at.bad(format!("{count} hosts are on the way, and {JUMPS} may be"), "leave out those that are not needed");
            return None;
        }
        Vec::<AnyJump>::read(at)
    }

    fn show(value: &Vec<Jump>) -> Option<Value> {
        Vec::<AnyJump>::show(value)
    }
}

/// `bastion.example.com`, `ops@10.0.0.1`, `ops@bastion:2222`, `ops@[fd00::1]:2222`.
fn short_jump(text: &str) -> Result<Jump, String> {
    let (user, place) = text.rsplit_once('@').unwrap_or(("root", text));
    if user.contains(':') {
        return Err("a jump is written user@host:port, without a password; use passwordFrom".to_owned());
    }
    let bracketed = place.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (address, port) = match bracketed {
        Some((address, "")) => (address, None),
        Some((address, rest)) => (address, Some(rest.strip_prefix(':').unwrap_or(rest))),
        None => place.split_once(':').map_or((place, None), |(address, port)| (address, Some(port))),
    };
    let port = match port {
        Some(port) => {
            port.parse::<u16>().ok().filter(|number| *number > 0).ok_or_else(|| format!("{port:?} is not a port"))?
        }
        None => 22,
    };
    Ok(Jump {
        address: addresses::host(address)?,
        port,
        user: values::user(user)?,
        private_key_path: None,
        password: None,
        agent: false,
    })
}
