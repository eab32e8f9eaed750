//! Where something is: addresses, networks, registries, endpoints. Each gives the value or says what is wrong with it.

use std::net::IpAddr;

use ipnet::IpNet;

use super::values::{not_a, number, repository, subdomain};
use crate::Reference;

/// An IP address or a DNS name.
pub(in crate::cluster) fn host(text: &str) -> Result<String, String> {
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    let numbers = text.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    if numbers || text.contains(':') { Err(not_a(text, "an IP address")) } else { subdomain(text) }
}

/// An IP address.
pub(in crate::cluster) fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| not_a(text, "an IP address"))
}

/// `10.233.0.0/18` or `fd00:10::/56`; bits behind the prefix must be zero.
pub(in crate::cluster) fn cidr(text: &str) -> Result<IpNet, String> {
    let bad = || not_a(text, "a network, like 10.233.64.0/18");
    let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
    let prefix = Some(prefix).filter(|prefix| number(prefix)).and_then(|prefix| prefix.parse().ok()).ok_or_else(bad)?;
    let network = IpNet::new(address.parse().map_err(|_| bad())?, prefix).map_err(|_| bad())?;
    if network == network.trunc() {
        return Ok(network);
    }
    Err(format!("{text} is an address inside a network; the network is {}", network.trunc()))
}

/// An http or https address without a login (which [`crate::yaml::At::holds_login`] tells first).
pub(in crate::cluster) fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.filter(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace))
        .map(|_| text.to_owned())
        .ok_or_else(|| not_a(text, "an http or https address"))
}

/// A registry, or a repository with all below it, by the name that nodes write; `*` for every other.
pub(in crate::cluster) fn repository_prefix(text: &str) -> Result<String, String> {
    if text == "*" {
        return Ok(text.to_owned());
    }
    let bad = || not_a(text, "a registry or repository with its host, like registry.k8s.io or docker.io/library, or *");
    let (host, path) = text.split_once('/').map_or((text, None), |(host, path)| (host, Some(path)));
    // What is no host would be a repository of Docker Hub in a short name, and here it is unclear.
    if !(host.contains(['.', ':']) || host == "localhost") {
        return Err(bad());
    }
    // The same grammar as a whole name has, with a part that cannot be wrong.
    let whole = format!("{host}/{}", path.map_or_else(|| "x/x".to_owned(), |path| format!("{path}/x")));
    let read = Reference::read(&whole).filter(|read| !read.is_exact()).ok_or_else(bad)?;
    let name = read.repository.strip_suffix(if path.is_none() { "/x/x" } else { "/x" }).unwrap_or(text);
    Ok(name.to_owned())
}

/// An etcd member's client address: `https://10.0.0.5:2379`, with a port and nothing after it.
pub(in crate::cluster) fn endpoint(text: &str) -> Result<String, String> {
    let bad = || not_a(text, "an etcd member's address, like https://10.0.0.5:2379");
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or_else(bad)?;
    let (name, number) = rest.rsplit_once(':').ok_or_else(bad)?;
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    host(name).map_err(|_| bad())?;
    number.parse::<u16>().ok().filter(|port| *port > 0).map(|_| text.to_owned()).ok_or_else(bad)
}

/// `host[:port]` of a registry.
pub(in crate::cluster) fn registry_host(text: &str) -> Result<String, String> {
    let bad = || not_a(text, "a registry's host[:port]");
    let (name, number) = text.split_once(':').map_or((text, None), |(name, number)| (name, Some(number)));
    let good = host(name).is_ok() && number.is_none_or(|n| n.parse::<u16>().is_ok_and(|port| port > 0));
    if good { Ok(text.to_owned()) } else { Err(bad()) }
}

/// `host[:port][/prefix]` of a registry, without a scheme.
pub(in crate::cluster) fn registry(text: &str) -> Result<String, String> {
    let bad = || not_a(text, "a registry without a scheme, like registry.example.com:5000/mirror");
    let (host, prefix) = text.split_once('/').map_or((text, None), |(host, prefix)| (host, Some(prefix)));
    registry_host(host).map_err(|_| bad())?;
    if prefix.is_none_or(|prefix| repository(prefix).is_ok()) { Ok(text.to_owned()) } else { Err(bad()) }
}

/// `oci://host[:port]/path`, without a tag.
pub(in crate::cluster) fn oci(text: &str) -> Result<String, String> {
    let bad = || not_a(text, "a chart in an OCI registry without its tag, like oci://ghcr.io/org/charts/name");
    let (host, path) = text.strip_prefix("oci://").and_then(|rest| rest.split_once('/')).ok_or_else(bad)?;
    registry_host(host).and_then(|_| repository(path)).map(|_| text.to_owned()).map_err(|_| bad())
}

/// A name of an API server's certificate: an address, a DNS name, or `*.` and a DNS name.
pub(in crate::cluster) fn san(text: &str) -> Result<String, String> {
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    host(text.strip_prefix("*.").unwrap_or(text)).map(|_| text.to_owned())
}
