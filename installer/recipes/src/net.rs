//! IPv4 network arithmetic for planning.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// An IPv4 network in CIDR notation (RFC 4632).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    base: u32,
    prefix: u32,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || "is not an IPv4 network; expected e.g. 10.233.0.0/18".to_owned();
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let prefix: u32 = prefix.parse().ok().filter(|p| *p <= 32).ok_or_else(bad)?;
        Ok(Self { base: u32::from(address) & mask(prefix), prefix })
    }
}

const fn mask(prefix: u32) -> u32 {
    if prefix == 0 { 0 } else { u32::MAX << (32 - prefix) }
}

impl Network {
    /// The `n`th address (0 is the network's own), or none when the network is too small.
    pub fn nth(self, n: u32) -> Option<Ipv4Addr> {
        let last = self.base | !mask(self.prefix);
        self.base.checked_add(n).filter(|a| *a <= last).map(Ipv4Addr::from)
    }

    /// Whether the two share an address.
    pub const fn overlaps(self, other: Self) -> bool {
        let shorter = if self.prefix < other.prefix { self.prefix } else { other.prefix };
        self.base & mask(shorter) == other.base & mask(shorter)
    }

    /// Whether it contains all of the other.
    pub const fn holds(self, other: Self) -> bool {
        self.prefix <= other.prefix && self.overlaps(other)
    }

    /// Whether it contains an address.
    pub fn contains(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => u32::from(v4) & mask(self.prefix) == self.base,
            IpAddr::V6(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_addresses_of_a_service_network_are_counted_from_its_base() {
        assert_eq!(network("10.233.0.0/18").nth(10), Some(Ipv4Addr::new(10, 233, 0, 10)));
        assert_eq!(network("10.0.0.4/30").nth(4), None);
    }

    #[test]
    fn networks_overlap_when_one_holds_the_other() {
        assert!(network("10.0.0.0/8").overlaps(network("10.233.0.0/18")));
        assert!(!network("10.233.0.0/18").overlaps(network("10.233.64.0/18")));
        assert!(network("0.0.0.0/0").overlaps(network("1.2.3.0/24")));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for bad in ["10.0.0.0", "10.0.0.0/33", "fd00::/8", "x/8"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
