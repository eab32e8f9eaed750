//! What an operating system's repositories have, for the verbs that resolve.

use std::num::NonZeroU16;
use std::path::PathBuf;

use kubexm_builder::session::Query;
use kubexm_packages::model::Comparison;
use kubexm_packages::solve::Root;
use kubexm_spec::Arch;

/// For every verb that looks into repositories.
#[derive(Clone, Debug, clap::Args)]
pub struct From {
    /// Operating system: debian-12, ubuntu-22.04, rocky-9
    #[arg(long, value_name = "NAME")]
    pub os: String,
    /// Architecture: amd64, arm64
    #[arg(long, value_name = "ARCH", default_value = "amd64", value_parser = arch)]
    pub arch: Arch,
    /// A mirror of yours: NAME=URL takes the place of one repository (main, security, baseos); URL alone of the
    /// host of all of them, their paths kept. A folder will do: of a mirror, or a vendor's DVD or ISO that is mounted
    /// there. May be given several times
    #[arg(long, value_name = "[NAME=]URL")]
    pub mirror: Vec<String>,
    /// Accept rpm metadata that nobody signs over plain http from the mirrors of --mirror: anybody on the network can
    /// then choose the packages
    #[arg(long, requires = "mirror")]
    pub trust_unsigned: bool,
    /// Certificates whose signatures the repositories must carry, in place of the vendor's
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Zone name (global, cn) or a zone file, whose mirrors are asked; comes before KMZONE
    #[arg(long, value_name = "NAME|FILE")]
    pub zone: Option<String>,
    /// What a host has installed: a copy of its /var/lib/dpkg/status, or what the command of `packages query` printed
    /// there. The answer is then what that host lacks
    #[arg(long, value_name = "FILE")]
    pub installed: Option<PathBuf>,
    /// Folder of the cache [default: $KUBEXM_HOME/cache]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// How many transfers at once
    #[arg(short = 'j', long, value_name = "N", default_value = "16")]
    pub jobs: NonZeroU16,
    /// Use no network: only what the cache has
    #[arg(long)]
    pub offline: bool,
}

fn arch(text: &str) -> Result<Arch, String> {
    [Arch::Amd64, Arch::Arm64]
        .into_iter()
        .find(|arch| arch.as_str() == text || arch.uname() == text)
        .ok_or_else(|| format!("{text:?} is no architecture: expected amd64 or arm64"))
}

/// `socat`, `socat=1.7.4.4-2`, `/usr/sbin/conntrack`.
pub fn root(text: &str) -> Result<Root, String> {
    let (name, version) = match text.split_once('=') {
        Some((name, version)) => (name, Some((Comparison::Equal, version.into()))),
        None => (text, None),
    };
    let wrong = name.is_empty()
        || name.starts_with('-')
        || text.contains(|c: char| c.is_whitespace() || "<>".contains(c))
        || version.as_ref().is_some_and(|(_, version): &(_, Box<str>)| version.is_empty() || version.starts_with('='));
    if wrong {
        return Err(format!("{text:?} is no package: expected a name, or name=version"));
    }
    Ok(Root { name: name.into(), version })
}

impl From {
    /// The same, for the library.
    pub fn query(&self) -> Query {
        let Self { os, arch, mirror: mirrors, trust_unsigned, key, zone, installed, cache, jobs, offline } =
            self.clone();
        Query { os, arch, mirrors, trust_unsigned, key, zone, installed, cache, jobs: jobs.get().into(), offline }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_names_with_or_without_a_version() {
        assert_eq!(root("socat").unwrap(), Root::named("socat"));
        assert_eq!(root("socat=1:2").unwrap().version, Some((Comparison::Equal, "1:2".into())));
        for wrong in ["", "=1", "socat=", "-y", "a b"] {
            assert!(root(wrong).is_err(), "{wrong:?}");
        }
    }
}
