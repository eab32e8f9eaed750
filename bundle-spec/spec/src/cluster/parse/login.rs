//! The jumps of `via`, through which a host is reached.

use super::take::{each, maybe, or, port};
use super::{addresses, secret, values};
use crate::cluster::Jump;
use crate::yaml::{At, Field, Object, Shape};

/// One of `spec.hosts[].via`, in the long form.
pub(super) const JUMP: Object = Object::new(
    "A host on the way to another one",
    &[
        Field::needed("address", Shape::Text, "IP address or DNS name"),
        Field::new("port", Shape::Number(1, 65535), "SSH port"),
        Field::new("user", Shape::Text, "SSH user; it needs no sudo there"),
        Field::new("privateKeyPath", Shape::Text, "Private key file on this machine; the host's own when left out"),
        Field::new("passwordFrom", Shape::Mapping(&secret::SOURCE), "Where the password comes from"),
        Field::new("agent", Shape::Bool, "Whether keys of your ssh-agent are used"),
        Field::new("password", Shape::Refused, "Refused: use passwordFrom"),
        Field::new("privateKey", Shape::Refused, "Refused: use privateKeyPath"),
    ],
);

/// Jumps, the nearest first: mappings, or `user@host:port` (ssh's `ProxyJump`).
pub(super) fn via(at: &At<'_>) -> Option<Vec<Jump>> {
    each(at, |at| if at.is_mapping() { jump(at) } else { at.parsed(short_jump) })
}

fn jump(at: &At<'_>) -> Option<Jump> {
    let map = at.mapping(&JUMP)?;
    secret::inline(&map);
    let address = map.need("address").and_then(|at| at.parsed(addresses::host));
    let port = or(map.get("port"), 22, port);
    let user = or(map.get("user"), "root".to_owned(), |at| at.parsed(values::user));
    let key = maybe(map.get("privateKeyPath"), |at| at.parsed(values::path));
    let password = maybe(map.get("passwordFrom"), secret::source);
    let agent = or(map.get("agent"), false, |at| at.boolean());
    Some(Jump {
        address: address?,
        port: port?,
        user: user?,
        private_key_path: key?,
        password: password?,
        agent: agent?,
    })
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
