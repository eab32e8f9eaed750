//! What an operating system's repositories have, for the verbs that resolve.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::path::PathBuf;

use kubexm_builder::origins::packages::{Options, PackagesError, Snapshot, Trust, deb, rpm};
use kubexm_manifests::Zone;
use kubexm_manifests::os::{Profile, Profiles, Repository};
use kubexm_packages::model::Comparison;
use kubexm_packages::solve::{Baseline, Closure, Pool, Root, Unsolvable, solve};
use kubexm_packages::trust::{Keyring, TrustError};
use kubexm_spec::{Arch, ExitCode, Family};
use kubexm_terminal::Failure;
use kubexm_transport::{HttpClient, HttpOptions, Store};

use crate::commands::fetching::{self, store, transport};
use crate::commands::input;
use crate::commands::zone::choice;

/// Lists of files are read again for what a package of the last round needs; no distribution needs more than two.
const ROUNDS: usize = 6;

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
    /// host of all of them, their paths kept. May be given several times
    #[arg(long, value_name = "[NAME=]URL")]
    pub mirror: Vec<String>,
    /// Certificates whose signatures the repositories must carry, in place of the vendor's
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Zone name (global, cn) or a zone file, whose mirrors are asked; comes before KMZONE
    #[arg(long, value_name = "NAME|FILE")]
    pub zone: Option<String>,
    /// Folder of the cache [default: $KUBEXM_HOME/cache]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// How many transfers at once
    #[arg(short = 'j', long, value_name = "N", default_value = "16")]
    pub jobs: NonZeroU16,
    /// Ask nobody: only what the cache holds
    #[arg(long)]
    pub offline: bool,
}

fn arch(text: &str) -> Result<Arch, String> {
    [Arch::Amd64, Arch::Arm64]
        .into_iter()
        .find(|arch| arch.as_str() == text || arch.uname() == text)
        .ok_or_else(|| format!("{text:?} is no architecture: wanted amd64 or arm64"))
}

/// An answer and what it was found in.
pub struct Resolved {
    /// Of the operating system.
    pub profile: &'static Profile,
    /// All packages.
    pub pool: Pool,
    /// The state of each repository.
    pub snapshots: Vec<Snapshot>,
    /// What is needed, or why it cannot be.
    pub closure: Result<Closure, Unsolvable>,
    /// What people should know.
    pub notes: Vec<String>,
}

/// `socat`, `socat=1.7.4.4-2`, `/usr/sbin/conntrack`.
pub fn root(text: &str) -> Result<Root, String> {
    let (name, version) = match text.split_once('=') {
        Some((name, version)) => (name, Some((Comparison::Equal, version.into()))),
        None => (text, None),
    };
    let wrong = name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace);
    if wrong || version.as_ref().is_some_and(|(_, version): &(_, Box<str>)| version.is_empty()) {
        return Err(format!("{text:?} is no package: wanted a name, or name=version"));
    }
    Ok(Root { name: name.into(), version })
}

impl From {
    /// Reads the repositories and solves.
    pub fn resolve(&self, roots: &[Root]) -> Result<Resolved, Failure> {
        let profiles = Profiles::embedded();
        let profile = profiles.get(&self.os).map_err(|error| Failure::from_error(error.exit_code(), &error))?;
        if !profile.archs.contains(&self.arch) {
            let known: Vec<&str> = profile.archs.iter().map(|arch| arch.as_str()).collect();
            let text = format!("{} is not there for {}, only for {}", self.os, self.arch.as_str(), known.join(", "));
            return Err(Failure::new(ExitCode::UnknownVersion, text));
        }
        let chosen = choice::choose(self.zone.as_deref(), None)?;
        let mirrors = Mirrors::new(profile, self.arch, &self.mirror, &chosen.zone)?;
        let keyring = self.key.as_deref().map(|file| {
            let text = input::read(file)?;
            Keyring::read(text.as_bytes())
                .map_err(|error| Failure::new(ExitCode::Config, format!("{}: {error}", file.display())))
        });
        let loading = Loading { profile, profiles, arch: self.arch, mirrors: &mirrors, keyring: keyring.transpose()? };
        let jobs = usize::from(self.jobs.get());
        let options = HttpOptions { parallel: jobs, offline: self.offline, ..HttpOptions::default() };
        let http = HttpClient::new(options).map_err(transport)?;
        let store = store(self.cache.as_deref())?;
        let mut notes = chosen.notes;
        notes.extend(chosen.warnings);
        let (pool, snapshots, closure) = fetching::runtime()?.block_on(loading.solve(&http, &store, roots))?;
        for snapshot in snapshots.iter().filter(|snapshot| !snapshot.signed) {
            notes.push(unsigned(profile, &snapshot.repository));
        }
        Ok(Resolved { profile, pool, snapshots, closure, notes })
    }
}

/// What it means that nobody has signed the metadata of a repository.
fn unsigned(profile: &Profile, repository: &str) -> String {
    let signs_packages = |known: &Repository| known.name == repository && !known.trust.packages.is_empty();
    match profile.repositories.iter().any(signs_packages) {
        true => format!(
            "the metadata of {repository} is not signed; each of its packages is, and is to be held against that"
        ),
        false => format!("nothing signs {repository}: only what a lock pins by sha256 is taken from it"),
    }
}

struct Loading<'a> {
    profile: &'a Profile,
    profiles: &'a Profiles,
    arch: Arch,
    mirrors: &'a Mirrors,
    keyring: Option<Keyring>,
}

type Answer = (Pool, Vec<Snapshot>, Result<Closure, Unsolvable>);

impl Loading<'_> {
    async fn solve(&self, http: &HttpClient, store: &Store, roots: &[Root]) -> Result<Answer, Failure> {
        let failed = |error: PackagesError| Failure::from_error(error.exit_code(), &error);
        let wrong_key = |error: TrustError| Failure::from_error(ExitCode::Config, &error);
        let options = Options::of_today();
        let mirrors = |name: &str| self.mirrors.of(name);
        if self.profile.family == Family::Deb {
            let mut suites = deb::suites(self.profile, self.profiles, self.arch, &mirrors).map_err(wrong_key)?;
            if let Some(keyring) = &self.keyring {
                suites.iter_mut().for_each(|suite| suite.trust = Trust::Signed(keyring.clone()));
            }
            let loaded = deb::load(&suites, self.arch, http, store, &options).await.map_err(failed)?;
            let closure = solve(&loaded.pool, roots, &Baseline::empty());
            return Ok((loaded.pool, loaded.snapshots, closure));
        }
        let mut repositories =
            rpm::repositories(self.profile, self.profiles, self.arch, &mirrors).map_err(wrong_key)?;
        if let Some(keyring) = &self.keyring {
            repositories.iter_mut().for_each(|repository| repository.metadata = Some(keyring.clone()));
        }
        let streams = rpm::Streams::of(self.profile);
        let mut paths: BTreeSet<Box<str>> = BTreeSet::new();
        let mut round = 0;
        loop {
            let loading = rpm::load(&repositories, self.arch, &streams, &paths, http, store, &options);
            let loaded = loading.await.map_err(failed)?;
            let closure = solve(&loaded.pool, roots, &Baseline::empty());
            let wanted = match &closure {
                Ok(closure) => &closure.needs_files,
                Err(unsolvable) => &unsolvable.needs_files,
            };
            let before = paths.len();
            paths.extend(wanted.iter().cloned());
            round += 1;
            if paths.len() == before || round == ROUNDS {
                return Ok((loaded.pool, loaded.snapshots, closure));
            }
        }
    }
}

/// Addresses by the name of a repository; none where its own holds.
struct Mirrors(Vec<(String, Vec<String>)>);

impl Mirrors {
    fn new(profile: &Profile, arch: Arch, said: &[String], zone: &Zone) -> Result<Self, Failure> {
        let usage = |text: String| Failure::new(ExitCode::Usage, text);
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for repository in &profile.repositories {
            let own = repository.base(profile.family, arch);
            let by_zone: Vec<String> = zone.files(&own).into_iter().map(|candidate| candidate.url).collect();
            found.push((repository.name.clone(), if by_zone == [own] { Vec::new() } else { by_zone }));
        }
        let mut said_of: BTreeSet<String> = BTreeSet::new();
        for text in said {
            let (name, url) = match text.split_once('=') {
                Some((name, url)) if !name.contains(['/', ':']) => (Some(name), url),
                _ => (None, text.as_str()),
            };
            if !(url.starts_with("http://") || url.starts_with("https://")) {
                return Err(usage(format!("--mirror {text}: wanted an address, https:// or http://")));
            }
            let names: Vec<String> = match name {
                Some(name) if found.iter().any(|(known, _)| known == name) => vec![name.to_owned()],
                Some(name) => {
                    let known: Vec<&str> = found.iter().map(|(known, _)| known.as_str()).collect();
                    let text = format!("{} has no repository {name:?}, only {}", profile.name, known.join(", "));
                    return Err(usage(format!("--mirror: {text}")));
                }
                None => found.iter().map(|(name, _)| name.clone()).collect(),
            };
            for wanted in names {
                let address = match name {
                    Some(_) => url.to_owned(),
                    None => {
                        let own = profile.repositories.iter().find(|one| one.name == wanted);
                        let own = own.map(|one| one.base(profile.family, arch)).unwrap_or_default();
                        format!("{}{}", url.trim_end_matches('/'), path(&own))
                    }
                };
                let Some((_, addresses)) = found.iter_mut().find(|(known, _)| *known == wanted) else { continue };
                // What is said takes the place of the zone's mirrors; said twice, both are asked in that order.
                if said_of.insert(wanted) {
                    addresses.clear();
                }
                addresses.push(address);
            }
        }
        Ok(Self(found))
    }

    fn of(&self, name: &str) -> Vec<String> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, addresses)| addresses.clone()).unwrap_or_default()
    }
}

/// `/debian` of `http://deb.debian.org/debian`.
fn path(url: &str) -> &str {
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    after.find('/').map_or("", |at| &after[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirrors(said: &[&str]) -> Result<Mirrors, String> {
        let profile = Profiles::embedded().get("debian-12").unwrap();
        let said: Vec<String> = said.iter().map(|one| (*one).to_owned()).collect();
        Mirrors::new(profile, Arch::Amd64, &said, &Zone::builtin("global").unwrap()).map_err(|failure| failure.text)
    }

    #[test]
    fn a_mirror_takes_the_place_of_a_repository_or_of_the_host_of_all() {
        let one = mirrors(&["security=http://lan/sec", "security=http://lan2/sec"]).unwrap();
        assert_eq!(one.of("security"), ["http://lan/sec", "http://lan2/sec"]);
        assert!(one.of("main").is_empty(), "its own address holds");
        let all = mirrors(&["http://lan:8080/"]).unwrap();
        assert_eq!(all.of("main"), ["http://lan:8080/debian"]);
        assert_eq!(all.of("security"), ["http://lan:8080/debian-security"]);
        assert!(mirrors(&["extra=http://lan"]).err().unwrap().contains("has no repository \"extra\", only main"));
        assert!(mirrors(&["lan/debian"]).err().unwrap().contains("wanted an address"));
    }

    #[test]
    fn roots_are_names_with_or_without_a_version() {
        assert_eq!(root("socat").unwrap(), Root::named("socat"));
        assert_eq!(root("socat=1:2").unwrap().version, Some((Comparison::Equal, "1:2".into())));
        for wrong in ["", "=1", "socat=", "-y", "a b"] {
            assert!(root(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_repository_whose_packages_alone_are_signed_is_not_called_unsigned() {
        let profiles = Profiles::embedded();
        let said = |os: &str, repository: &str| unsigned(profiles.get(os).unwrap(), repository);
        assert!(said("rocky-9", "baseos").contains("each of its packages is"));
        assert!(said("rocky-9", "another").starts_with("nothing signs another"));
    }
}
