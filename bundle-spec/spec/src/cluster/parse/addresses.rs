//! Where something is: addresses, networks, registries, endpoints. Each gives the value or says what is wrong with it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::values::{not_a, number, repository, subdomain};

/// An IP address or a DNS name.
pub(super) fn host(text: &str) -> Result<String, String> {
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    let numbers = text.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    if numbers || text.contains(':') { Err(not_a(text, "an IP address")) } else { subdomain(text) }
}

/// An IP address.
pub(super) fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| not_a(text, "an IP address"))
}

/// A network of either family; addresses are counted in 128 bits, IPv4's in the last 32 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cidr {
    base: u128,
    bits: u32,
    v6: bool,
}

impl Cidr {
    /// Reads `10.233.0.0/18` or `fd00:10::/56`; bits behind the prefix must be zero.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let bad = || not_a(text, "a network, like 10.233.64.0/18");
        let (address, bits) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let v6 = address.is_ipv6();
        let most = if v6 { 128 } else { 32 };
        let bits =
            Some(bits).filter(|b| number(b)).and_then(|b| b.parse().ok()).filter(|b| *b <= most).ok_or_else(bad)?;
        let cidr = Self { base: position(address), bits, v6 };
        let first = cidr.base & cidr.mask();
        if first == cidr.base {
            return Ok(cidr);
        }
        let network: IpAddr = match u32::try_from(first) {
            Ok(first) if !v6 => Ipv4Addr::from(first).into(),
            _ => Ipv6Addr::from(first).into(),
        };
        Err(format!("{text} is an address inside a network; the network is {network}/{bits}"))
    }

    /// Ones where the prefix is; IPv4's are the last 32 bits.
    fn mask(self) -> u128 {
        let host = if self.v6 { 128 - self.bits } else { 32 - self.bits };
        u128::MAX.checked_shl(host).unwrap_or(0)
    }

    /// Length of the prefix.
    pub(super) const fn bits(self) -> u32 {
        self.bits
    }

    /// Whether it is of IPv6.
    pub(super) const fn is_v6(self) -> bool {
        self.v6
    }

    /// Whether two networks share an address.
    pub(super) fn overlaps(self, other: Self) -> bool {
        let mask = self.mask() & other.mask();
        self.v6 == other.v6 && self.base & mask == other.base & mask
    }

    /// Whether an address is in the network.
    pub(super) fn holds(self, address: IpAddr) -> bool {
        self.v6 == address.is_ipv6() && position(address) & self.mask() == self.base
    }
}

fn position(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

/// An http or https address without a login (which [`crate::yaml::At::holds_login`] tells first).
pub(super) fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.filter(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace))
        .map(|_| text.to_owned())
        .ok_or_else(|| not_a(text, "an http or https address"))
}

/// An etcd member's client address: `https://10.0.0.5:2379`, with a port and nothing after it.
pub(super) fn endpoint(text: &str) -> Result<String, String> {
    let bad = || not_a(text, "an etcd member's address, like https://10.0.0.5:2379");
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or_else(bad)?;
    let (name, number) = rest.rsplit_once(':').ok_or_else(bad)?;
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    host(name).map_err(|_| bad())?;
    number.parse::<u16>().ok().filter(|port| *port > 0).map(|_| text.to_owned()).ok_or_else(bad)
}

/// `host[:port]` of a registry.
pub(super) fn registry_host(text: &str) -> Result<String, String> {
    let bad = || not_a(text, "a registry's host[:port]");
    let (name, number) = text.split_once(':').map_or((text, None), |(name, number)| (name, Some(number)));
    let good = host(name).is_ok() && number.is_none_or(|n| n.parse::<u16>().is_ok_and(|port| port > 0));
    if good { Ok(text.to_owned()) } else { Err(bad()) }
}

/// `host[:port][/prefix]` of a registry, without a scheme.
pub(super) fn registry(text: &str) -> Result<String, String> {
    let bad = || not_a(text, "a registry without a scheme, like registry.example.com:5000/mirror");
    let (host, prefix) = text.split_once('/').map_or((text, None), |(host, prefix)| (host, Some(prefix)));
    registry_host(host).map_err(|_| bad())?;
    if prefix.is_none_or(|prefix| repository(prefix).is_ok()) { Ok(text.to_owned()) } else { Err(bad()) }
}

/// `oci://host[:port]/path`, without a tag.
pub(super) fn oci(text: &str) -> Result<String, String> {
    let bad = || not_a(text, "a chart in an OCI registry without its tag, like oci://ghcr.io/org/charts/name");
    let (host, path) = text.strip_prefix("oci://").and_then(|rest| rest.split_once('/')).ok_or_else(bad)?;
    registry_host(host).and_then(|_| repository(path)).map(|_| text.to_owned()).map_err(|_| bad())
}

/// A name of an API server's certificate: an address, a DNS name, or `*.` and a DNS name.
pub(super) fn san(text: &str) -> Result<String, String> {
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    host(text.strip_prefix("*.").unwrap_or(text)).map(|_| text.to_owned())
}
