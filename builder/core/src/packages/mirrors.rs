//! Where the repositories of a release are asked: their own addresses, mirrors of a zone, mirrors that a user names.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_manifests::Zone;
use kubexm_manifests::os::Profile;
use kubexm_spec::Arch;
use kubexm_transport::FileCandidate;

use crate::resolve::files;

/// Addresses by the name of a profile's repository; none where its own holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors(BTreeMap<String, Vec<FileCandidate>>);

/// A mirror that a user has named and that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongMirror {
    /// No address.
    #[error("{said}: wanted an address, https:// or http://")]
    NoAddress {
        /// As written.
        said: String,
    },
    /// Of a repository that is none.
    #[error("{os} has no repository {name:?}, only {}", known.join(", "))]
    NoRepository {
        /// The release.
        os: String,
        /// As written.
        name: String,
        /// Its repositories.
        known: Vec<String>,
    },
}

impl Mirrors {
    /// Where a zone leads.
    pub fn of_zone(profile: &Profile, arch: Arch, zone: &Zone) -> Self {
        let mut all = BTreeMap::new();
        for repository in &profile.repositories {
            let own = repository.base(profile.family, arch);
            let found = files(zone, &own);
            if found.iter().any(|candidate| candidate.url != own) {
                all.insert(repository.name.clone(), found);
            }
        }
        Self(all)
    }

    /// The same with what a user names, which takes the place of the zone's: `NAME=URL` for one repository, `URL` for the host of
    /// all of them, their paths kept. Named twice, both are asked in that order.
    pub fn with(mut self, profile: &Profile, arch: Arch, said: &[String]) -> Result<Self, WrongMirror> {
        let mut replaced: BTreeSet<&str> = BTreeSet::new();
        for text in said {
            let (name, url) = match text.split_once('=') {
                Some((name, url)) if !name.contains(['/', ':']) => (Some(name), url),
                _ => (None, text.as_str()),
            };
            if !(url.starts_with("http://") || url.starts_with("https://")) {
                return Err(WrongMirror::NoAddress { said: text.clone() });
            }
            let meant: Vec<_> =
                profile.repositories.iter().filter(|one| name.is_none_or(|name| one.name == name)).collect();
            if let (Some(name), true) = (name, meant.is_empty()) {
                let known = profile.repositories.iter().map(|one| one.name.clone()).collect();
                return Err(WrongMirror::NoRepository { os: profile.name.clone(), name: name.to_owned(), known });
            }
            for repository in meant {
                let own = repository.base(profile.family, arch);
                let address = match name {
                    Some(_) => url.to_owned(),
                    None => format!("{}{}", url.trim_end_matches('/'), path(&own)),
                };
                let addresses = self.0.entry(repository.name.clone()).or_default();
                if replaced.insert(&repository.name) {
                    addresses.clear();
                }
                let plain_http_allowed = address.starts_with("http://");
                addresses.push(FileCandidate { plain_http_allowed, ..FileCandidate::new(address) });
            }
        }
        Ok(self)
    }

    /// Of a repository.
    pub fn of(&self, name: &str) -> Vec<FileCandidate> {
        self.0.get(name).cloned().unwrap_or_default()
    }
}

/// `/debian` of `http://deb.debian.org/debian`.
fn path(url: &str) -> &str {
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    after.find('/').map_or("", |at| &after[at..])
}

#[cfg(test)]
mod tests {
    use kubexm_manifests::os::Profiles;

    use super::*;

    fn mirrors(said: &[&str], zone: &str) -> Result<Mirrors, String> {
        let profile = Profiles::embedded().get("debian-12").unwrap();
        let said: Vec<String> = said.iter().map(|one| (*one).to_owned()).collect();
        let zone = Zone::parse(zone).unwrap();
        let of_zone = Mirrors::of_zone(profile, Arch::Amd64, &zone);
        of_zone.with(profile, Arch::Amd64, &said).map_err(|error| error.to_string())
    }

    fn urls(mirrors: &Mirrors, name: &str) -> Vec<String> {
        mirrors.of(name).into_iter().map(|candidate| candidate.url).collect()
    }

    const NO_RULES: &str = "{name: x, rules: []}";

    #[test]
    fn a_mirror_takes_the_place_of_a_repository_or_of_the_host_of_all() {
        let one = mirrors(&["security=http://lan/sec", "security=http://lan2/sec"], NO_RULES).unwrap();
        assert_eq!(urls(&one, "security"), ["http://lan/sec", "http://lan2/sec"]);
        assert!(urls(&one, "main").is_empty(), "its own address holds");
        let all = mirrors(&["http://lan:8080/"], NO_RULES).unwrap();
        assert_eq!(urls(&all, "main"), ["http://lan:8080/debian"]);
        assert_eq!(urls(&all, "security"), ["http://lan:8080/debian-security"]);
        let error = mirrors(&["extra=http://lan"], NO_RULES).unwrap_err();
        assert!(error.contains("has no repository \"extra\", only main"), "{error}");
        assert!(mirrors(&["lan/debian"], NO_RULES).unwrap_err().contains("wanted an address"));
    }

    #[test]
    fn a_zone_leads_elsewhere_with_the_authority_of_its_host_and_what_a_user_names_takes_its_place() {
        let zone = "name: site\nrules:\n- {match: deb.debian.org/debian, to: [\"https://lan/d\"], caFile: /ca.pem, only: true}\n";
        let by_zone = mirrors(&[], zone).unwrap();
        let main = &by_zone.of("main")[0];
        assert_eq!((main.url.as_str(), main.ca_file.as_deref()), ("https://lan/d", Some("/ca.pem".as_ref())));
        assert!(by_zone.of("security").is_empty(), "a rule for a folder is not for its neighbour");
        assert_eq!(urls(&mirrors(&["main=http://mine/x"], zone).unwrap(), "main"), ["http://mine/x"]);
    }
}
