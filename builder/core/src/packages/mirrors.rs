//! Sources of a release's repositories: their own addresses, mirrors of a zone, mirrors and media that a user names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use kubexm_manifests::Zone;
use kubexm_manifests::os::{Profile, Repository};
use kubexm_spec::{Arch, Family};
use kubexm_transport::{FileCandidate, LOCAL_SCHEME};

use super::medium::{self, folders};
use crate::places::holds_login;

/// Addresses by the name of a profile's repository; none where its own holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    places: BTreeMap<String, Vec<FileCandidate>>,
    /// Repositories whose places a user has named one by one: what is not there is missed. A medium need not have all of them.
    named: BTreeSet<String>,
    /// Addresses from which unsigned rpm metadata is accepted over plain http.
    trust_unsigned: BTreeSet<String>,
}

/// A mirror that a user has named and that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongMirror {
    /// No address.
    #[error("{said}: expected an address, https:// or http://, or a folder (/mnt/iso, file:///mnt/iso)")]
    NoAddress {
        /// As written.
        said: String,
    },
    /// It holds a login, which process lists would show. The address is not repeated in the message.
    #[error(
        "an address with a login in it: process lists would show it; use a mirror without login, or one that requires a client \
         certificate (certFile and keyFile of a zone's rule), or copy the mirror and name the folder"
    )]
    Login,
    /// The name is not that of a repository.
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
        let (mut places, mut trust_unsigned) = (BTreeMap::new(), BTreeSet::new());
        for repository in &profile.repositories {
            let own = repository.base(profile.family, arch);
            let trusted = zone.files(&own).into_iter().filter(|place| place.trust_unsigned);
            trust_unsigned.extend(trusted.map(|place| place.url.trim_end_matches('/').to_owned()));
            let found = medium::places(profile, arch, repository, "", zone);
            let is_own =
                |place: &FileCandidate| place.url == own && place.identity.is_none() && place.ca_file.is_none();
            if !found.iter().all(is_own) {
                places.insert(repository.name.clone(), found);
            }
        }
        Self { places, named: BTreeSet::new(), trust_unsigned }
    }

    /// The same with what a user names, which takes the place of the zone's: `NAME=URL` for one repository, `URL` for the host of
    /// all of them, their paths kept. Named twice, both are asked in that order. A folder of this machine will do in place of an
    /// address; where it is laid out as the vendor's media are, it is read so.
    /// `trust_unsigned`: unsigned rpm metadata is accepted from them over plain http.
    pub fn with(
        mut self,
        profile: &Profile,
        arch: Arch,
        said: &[String],
        trust_unsigned: bool,
    ) -> Result<Self, WrongMirror> {
        let mut replaced: BTreeSet<&str> = BTreeSet::new();
        for text in said {
            let (name, url) = match text.split_once('=') {
                Some((name, url)) if !name.contains(['/', ':']) => (Some(name), url),
                _ => (None, text.as_str()),
            };
            if holds_login(url) {
                return Err(WrongMirror::Login);
            }
            let place = place(url).ok_or_else(|| WrongMirror::NoAddress { said: text.clone() })?;
            let meant: Vec<_> =
                profile.repositories.iter().filter(|one| name.is_none_or(|name| one.name == name)).collect();
            if let (Some(name), true) = (name, meant.is_empty()) {
                let known = profile.repositories.iter().map(|one| one.name.clone()).collect();
                return Err(WrongMirror::NoRepository { os: profile.name.clone(), name: name.to_owned(), known });
            }
            // The folder of one repository in place of the host of all of them, as most mirrors are named.
            let host = url_of_host(&place, &meant, profile.family, arch);
            for repository in meant {
                let places = self.places.entry(repository.name.clone()).or_default();
                if replaced.insert(&repository.name) {
                    places.clear();
                }
                let trusted =
                    |place: &FileCandidate| trust_unsigned.then(|| place.url.trim_end_matches('/').to_owned());
                if name.is_some() {
                    self.named.insert(repository.name.clone());
                    self.trust_unsigned.extend(trusted(&place));
                    places.push(place.clone());
                    continue;
                }
                let own = repository.base(profile.family, arch);
                let as_pressed = medium::pressed(repository, profile.family, arch, &place, "");
                let at_host = host.as_ref().map(|host| host.below(path(&own)));
                for place in as_pressed.into_iter().chain(at_host).chain([place.below(path(&own))]) {
                    self.trust_unsigned.extend(trusted(&place));
                    if !places.contains(&place) {
                        places.push(place);
                    }
                }
            }
        }
        Ok(self)
    }

    /// Of a repository.
    pub fn of(&self, name: &str) -> Vec<FileCandidate> {
        self.places.get(name).cloned().unwrap_or_default()
    }

    /// Whether unsigned rpm metadata is accepted from an address over plain http.
    pub fn trusts_unsigned(&self, url: &str) -> bool {
        self.trust_unsigned.contains(url.trim_end_matches('/'))
    }

    /// Whether the user gave a mirror for a repository by its name.
    pub fn is_named(&self, name: &str) -> bool {
        self.named.contains(name)
    }
}

/// A mirror that the user gave: an address unchanged, a folder as its absolute path.
fn place(said: &str) -> Option<FileCandidate> {
    if said.starts_with("http://") || said.starts_with("https://") {
        let plain_http_allowed = said.starts_with("http://");
        return Some(FileCandidate { plain_http_allowed, ..FileCandidate::new(said) });
    }
    if said.starts_with(LOCAL_SCHEME) {
        return FileCandidate::folder_at(said).ok();
    }
    let is_path = ["/", "./", "../"].iter().any(|start| said.starts_with(start)) || matches!(said, "." | "..");
    let path = std::path::absolute(said).ok().filter(|_| is_path)?;
    FileCandidate::folder(&path).ok()
}

/// Of an address that ends as the path of a repository begins, the address before that: `http://lan` of `http://lan/debian`. A mirror that
/// has the whole path below such a folder is asked next.
fn url_of_host(
    place: &FileCandidate,
    repositories: &[&Repository],
    family: Family,
    arch: Arch,
) -> Option<FileCandidate> {
    if place.is_local() {
        return None;
    }
    let url = place.url.trim_end_matches('/');
    let shared = |repository: &&Repository| {
        let own = repository.base(family, arch);
        let own = path(&own).trim_matches('/').to_owned();
        let mut ends = own.match_indices('/').map(|(at, _)| at).chain([own.len()]).collect::<Vec<_>>();
        ends.reverse();
        ends.into_iter().find_map(|end| {
            let before = url.strip_suffix(&own[..end])?.strip_suffix('/')?;
            before.contains("://").then(|| before.to_owned()).filter(|before| !before.ends_with('/'))
        })
    };
    let before = repositories.iter().filter_map(shared).min_by_key(String::len)?;
    Some(FileCandidate { url: before, ..place.clone() })
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
        of_zone.with(profile, Arch::Amd64, &said, false).map_err(|error| error.to_string())
    }

    fn urls(mirrors: &Mirrors, name: &str) -> Vec<String> {
        mirrors.of(name).into_iter().map(|candidate| candidate.url).collect()
    }

    const NO_RULES: &str = "{name: x, rules: []}";

    #[test]
    fn a_login_in_an_address_is_refused_and_not_repeated() {
        for said in ["http://bob:s3cr3t@lan/", "main=https://s3cr3t@lan/debian"] {
            let error = mirrors(&[said], NO_RULES).unwrap_err();
            assert!(error.contains("a login in it") && !error.contains("s3cr3t"), "{error}");
        }
        assert!(mirrors(&["http://lan/user@place"], NO_RULES).is_ok());
    }

    #[test]
    fn a_mirror_takes_the_place_of_a_repository_or_of_the_host_of_all() {
        let one = mirrors(&["security=http://lan/sec", "security=http://lan2/sec"], NO_RULES).unwrap();
        assert_eq!(urls(&one, "security"), ["http://lan/sec", "http://lan2/sec"]);
        assert!(urls(&one, "main").is_empty(), "its own address holds");
        let all = mirrors(&["http://lan:8080/"], NO_RULES).unwrap();
        assert_eq!(urls(&all, "main"), ["http://lan:8080/debian"]);
        assert_eq!(urls(&all, "security"), ["http://lan:8080/debian-security"]);
        for said in ["http://lan:8080/debian", "http://lan:8080/debian/"] {
            let all = mirrors(&[said], NO_RULES).unwrap();
            assert_eq!(urls(&all, "main"), ["http://lan:8080/debian", "http://lan:8080/debian/debian"]);
            assert_eq!(
                urls(&all, "security"),
                ["http://lan:8080/debian-security", "http://lan:8080/debian/debian-security"]
            );
        }
        let deep = mirrors(&["http://lan/os/debian-security"], NO_RULES).unwrap();
        assert_eq!(urls(&deep, "main")[0], "http://lan/os/debian");
        assert_eq!(urls(&mirrors(&["http://debian"], NO_RULES).unwrap(), "main"), ["http://debian/debian"], "a host");
        let error = mirrors(&["extra=http://lan"], NO_RULES).unwrap_err();
        assert!(error.contains("has no repository \"extra\", only main"), "{error}");
        assert!(mirrors(&["lan/debian"], NO_RULES).unwrap_err().contains("expected an address"));
    }

    #[test]
    fn a_zone_redirects_repositories_with_its_ca_and_a_users_mirror_overrides_it() {
        let zone = "name: site\nrules:\n- {match: deb.debian.org/debian, to: [\"https://lan/d\"], caFile: /ca.pem, only: true}\n";
        let by_zone = mirrors(&[], zone).unwrap();
        let main = &by_zone.of("main")[0];
        assert_eq!((main.url.as_str(), main.ca_file.as_deref()), ("https://lan/d", Some("/ca.pem".as_ref())));
        assert!(by_zone.of("security").is_empty(), "a rule for a folder is not for its neighbour");
        assert_eq!(urls(&mirrors(&["main=http://mine/x"], zone).unwrap(), "main"), ["http://mine/x"]);
    }

    #[test]
    fn a_folder_is_read_as_media_are_laid_out_and_as_a_mirror_is() {
        let all = mirrors(&["/mnt/my iso"], NO_RULES).unwrap();
        assert_eq!(urls(&all, "main"), ["file:///mnt/my%20iso", "file:///mnt/my%20iso/debian"]);
        assert_eq!(urls(&all, "security"), ["file:///mnt/my%20iso/debian-security"], "no medium has it");
        assert!(all.of("main").iter().all(|place| place.folder.as_deref() == Some("file:///mnt/my%20iso")));
        let named = mirrors(&["main=file:///mnt/iso/"], NO_RULES).unwrap();
        assert_eq!(urls(&named, "main"), ["file:///mnt/iso"]);
        assert!(named.is_named("main") && !named.is_named("security"));
        let zone = "name: dvd\nrules:\n- {match: deb.debian.org/debian, to: [\"file:///mnt/iso\"], only: true}\n";
        assert_eq!(urls(&mirrors(&[], zone).unwrap(), "main"), ["file:///mnt/iso"]);
        for wrong in ["/", "file:relative", "mnt/iso", "file://host/mnt"] {
            assert!(mirrors(&[wrong], NO_RULES).unwrap_err().contains("expected an address"), "{wrong}");
        }
    }
}

/// The places of a repository, without the folders that do not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Where to ask; its own address when empty.
    At(Vec<FileCandidate>),
    /// It was looked for in folders only, and is in none of them.
    Nowhere(Vec<PathBuf>),
}

/// Finds the address of a repository. A mirror given for this repository alone must have it, and is used unchanged.
pub(super) fn found(mirrors: &Mirrors, name: &str, family: Family) -> Found {
    let marker = match family {
        Family::Deb => "dists",
        Family::Rpm => "repodata/repomd.xml",
    };
    let all = mirrors.of(name);
    if mirrors.is_named(name) || !all.iter().any(FileCandidate::is_local) {
        return Found::At(all);
    }
    let folders = folders(&all);
    let there: Vec<_> = all.into_iter().filter(|place| !place.is_local() || place.below(marker).is_there()).collect();
    if there.is_empty() { Found::Nowhere(folders) } else { Found::At(there) }
}
