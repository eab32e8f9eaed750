//! Which streams are active, and which packages they leave to be seen: what dnf's modular filtering does.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Build, Modules};
use super::version::{self, Evr};
use crate::model::{Package, RepoId};

/// Steps of the whole choice: a stream that is looked at, a name in a list of streams, an entry of a set that is copied. EL8's AppStream
/// needs some ten thousand; more are a second of work, whatever the modules say.
const STEPS: u64 = 10_000_000;
/// How long a chain of modules that need each other may be.
const DEPTH: u32 = 64;
/// What a build needs of the system itself.
const PLATFORM: &str = "platform";

/// What is chosen among streams.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The machine's architecture.
    pub arch: &'a str,
    /// `el8`; any when none.
    pub platform: Option<&'a str>,
    /// Modules and streams beyond the defaults: `("container-tools", "rhel8")`.
    pub enabled: &'a [(&'a str, &'a str)],
    /// Repositories whose packages are seen whatever modules say (`module_hotfixes`).
    pub hotfixes: &'a [RepoId],
}

/// Why streams cannot be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModuleError {
    /// A requested stream that cannot be enabled.
    #[error("the module stream {module}:{stream} cannot be enabled: {why}")]
    Unavailable {
        /// The module.
        module: String,
        /// The stream.
        stream: String,
        /// What is missing.
        why: String,
    },
    /// Modules need each other in more ways than are tried.
    #[error(
        "modules.yaml: the choice of streams was stopped at {module}:{stream} after {STEPS} steps: modules need each other in more ways than any real repository's do"
    )]
    TooHard {
        /// The module, one that was asked for or a default.
        module: String,
        /// The stream.
        stream: String,
    },
}

impl Modules {
    /// The packages that are to be seen, those of modules marked with theirs: what dnf leaves of them.
    ///
    /// Packages of streams that are not active are not seen. Where a stream is active, packages outside of modules are not seen
    /// if they have the name of one of its packages, or provide it.
    pub fn visible(&self, packages: Vec<Package>, choice: &Choice<'_>) -> Result<Vec<Package>, ModuleError> {
        if self.builds.is_empty() && choice.enabled.is_empty() {
            return Ok(packages);
        }
        let active = self.active(choice)?;
        let (mut included, mut excluded, mut names) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        for (place, build) in self.builds.iter().enumerate() {
            for artifact in &build.artifacts {
                if !active.contains(&place) {
                    excluded.insert(artifact.as_str());
                    continue;
                }
                included.insert(artifact.as_str(), build);
                // A source package hides nothing.
                if let Some(name) = name(artifact).filter(|_| !artifact.ends_with("src")) {
                    names.insert(name);
                }
            }
        }
        let builds = active.iter().filter_map(|place| self.builds.get(*place));
        let freed: BTreeSet<&str> = builds.flat_map(|build| &build.demodularized).map(String::as_str).collect();
        names.retain(|name| !freed.contains(name));
        let seen = packages.into_iter().filter_map(|mut package| {
            let nevra = nevra(&package);
            if let Some(build) = included.get(nevra.as_str()) {
                package.module = Some(format!("{}:{}", build.module, build.stream).into());
                return Some(package);
            }
            let hidden = excluded.contains(nevra.as_str())
                || names.contains(&*package.name)
                || package.provides.iter().any(|provide| names.contains(&*provide.name));
            (!hidden || choice.hotfixes.contains(&package.repo)).then_some(package)
        });
        Ok(seen.collect())
    }

    /// The builds that are active: of what is enabled, of defaults that fit beside it, and of what both need.
    fn active(&self, choice: &Choice<'_>) -> Result<BTreeSet<usize>, ModuleError> {
        let mut streams: Streams<'_> = BTreeMap::new();
        let mut search = Search::new(self, choice);
        for (module, stream) in choice.enabled {
            let error = |why: String| ModuleError::Unavailable {
                module: (*module).to_owned(),
                stream: (*stream).to_owned(),
                why,
            };
            let build = self.builds.iter().find(|build| build.module == *module && build.stream == *stream);
            let build = build.ok_or_else(|| error(self.known(module)))?;
            if !search.choose(&mut streams, &build.module, &build.stream)? {
                return Err(error("no build of it fits this machine and the other streams".to_owned()));
            }
        }
        for (module, stream) in &self.defaults {
            if let Some(stream) = stream.as_ref().filter(|_| !streams.contains_key(module.as_str())) {
                // A default that cannot be had is none.
                search.choose(&mut streams, module, stream)?;
            }
        }
        let mut active = BTreeMap::new();
        for (place, build) in self.builds.iter().enumerate() {
            let chosen = streams.get(build.module.as_str()) == Some(&build.stream.as_str());
            let fits = build.requires.iter().all(|(module, wanted)| {
                module == PLATFORM || streams.get(module.as_str()).is_some_and(|stream| allows(wanted, stream))
            });
            if chosen && fits && build.runs_on(choice) {
                // Contexts of a version are the same for other needs: one is enough.
                let key = (&build.module, build.version);
                let other = active.get(&key).and_then(|other: &usize| self.builds.get(*other));
                if other.is_none_or(|other| build.context < other.context) {
                    active.insert(key, place);
                }
            }
        }
        Ok(active.into_values().collect())
    }

    fn known(&self, module: &str) -> String {
        let builds = self.builds.iter().filter(|build| build.module == module);
        let streams: BTreeSet<&str> = builds.map(|build| build.stream.as_str()).collect();
        if streams.is_empty() {
            return "no repository has the module".to_owned();
        }
        format!("there are {}", streams.into_iter().collect::<Vec<_>>().join(", "))
    }
}

/// The stream of each module.
type Streams<'a> = BTreeMap<&'a str, &'a str>;

impl Build {
    fn runs_on(&self, choice: &Choice<'_>) -> bool {
        let platform = self.requires.iter().filter(|(module, _)| module == PLATFORM);
        let arch = self.arch.is_empty() || self.arch == choice.arch || self.arch == "noarch";
        arch && choice.platform.is_none_or(|found| platform.into_iter().all(|(_, wanted)| allows(wanted, found)))
    }
}

/// Whether a stream is one of those: any if none is listed, all but those with a `-` before them otherwise.
fn allows(wanted: &[String], stream: &str) -> bool {
    if wanted.iter().any(|wanted| wanted.strip_prefix('-') == Some(stream)) {
        return false;
    }
    let mut named = wanted.iter().filter(|wanted| !wanted.starts_with('-')).peekable();
    named.peek().is_none() || named.any(|wanted| wanted == stream)
}

/// As artifacts are written: always with an epoch.
fn nevra(package: &Package) -> String {
    let evr = Evr::parse(&package.version);
    let epoch = if evr.epoch.is_empty() { "0" } else { evr.epoch };
    let release = evr.release.unwrap_or_default();
    format!("{}-{epoch}:{}-{release}.{}", package.name, evr.version, package.arch)
}

/// The name in `name-epoch:version-release.arch`.
fn name(artifact: &str) -> Option<&str> {
    let (rest, _) = artifact.rsplit_once('-')?;
    Some(rest.rsplit_once('-')?.0)
}

/// A search for streams that go together. All that one choice does has one limit: each default would have one of its own otherwise.
struct Search<'a> {
    modules: &'a Modules,
    /// Of each module, the newest first.
    streams: BTreeMap<&'a str, Vec<&'a str>>,
    /// Builds of a stream that run on this machine, the best first.
    builds: BTreeMap<(&'a str, &'a str), Vec<&'a Build>>,
    left: u64,
}

/// Nothing is left of [`STEPS`].
struct Spent;

impl<'a> Search<'a> {
    fn new(modules: &'a Modules, choice: &Choice<'_>) -> Self {
        let mut streams: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut builds: BTreeMap<(&str, &str), Vec<&Build>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for build in &modules.builds {
            let key = (build.module.as_str(), build.stream.as_str());
            if seen.insert(key) {
                streams.entry(key.0).or_default().push(key.1);
            }
            if build.runs_on(choice) {
                builds.entry(key).or_default().push(build);
            }
        }
        for all in streams.values_mut() {
            all.sort_by(|one, other| version::part(other, one));
        }
        for all in builds.values_mut() {
            all.sort_by(|one, other| (other.version, &one.context).cmp(&(one.version, &other.context)));
        }
        Self { modules, streams, builds, left: STEPS }
    }

    /// Adds a stream and what it needs, or nothing.
    fn choose(&mut self, streams: &mut Streams<'a>, module: &'a str, stream: &'a str) -> Result<bool, ModuleError> {
        let too_hard = |Spent| ModuleError::TooHard { module: module.to_owned(), stream: stream.to_owned() };
        self.enable(streams, module, stream, 0).map_err(too_hard)
    }

    fn enable(
        &mut self,
        streams: &mut Streams<'a>,
        module: &'a str,
        stream: &'a str,
        depth: u32,
    ) -> Result<bool, Spent> {
        if let Some(chosen) = streams.get(module) {
            return Ok(*chosen == stream);
        }
        if depth == DEPTH {
            return Ok(false);
        }
        for at in 0..self.builds.get(&(module, stream)).map_or(0, Vec::len) {
            let Some(build) = self.builds.get(&(module, stream)).and_then(|all| all.get(at)).copied() else { break };
            self.spend(1 + streams.len())?;
            let mut trial = streams.clone();
            trial.insert(module, stream);
            if self.enable_needs(&mut trial, build, depth)? {
                *streams = trial;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn enable_needs(&mut self, streams: &mut Streams<'a>, build: &'a Build, depth: u32) -> Result<bool, Spent> {
        // What it needs of the system was looked at, and is gone over again: a build may name that a million times.
        self.spend(build.requires.len())?;
        for (needed, wanted) in build.requires.iter().filter(|(module, _)| module != PLATFORM) {
            let mut met = false;
            for stream in self.candidates(needed, wanted, streams)? {
                if self.enable(streams, needed, stream, depth + 1)? {
                    met = true;
                    break;
                }
            }
            if !met {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Streams of a module that would do, the likeliest first: what is chosen already, its default, the newest.
    fn candidates(&mut self, module: &str, wanted: &[String], chosen: &Streams<'a>) -> Result<Vec<&'a str>, Spent> {
        if let Some(stream) = chosen.get(module) {
            self.spend(1 + wanted.len())?;
            return Ok(if allows(wanted, stream) { vec![stream] } else { Vec::new() });
        }
        let all = self.streams.get(module).map_or(0, Vec::len);
        self.spend(all.saturating_mul(1 + wanted.len()))?;
        let known = self.streams.get(module).into_iter().flatten().copied();
        let mut streams: Vec<&str> = known.filter(|stream| allows(wanted, stream)).collect();
        let default = self.modules.defaults.get(module).and_then(Option::as_deref);
        streams.sort_by_key(|stream| default != Some(*stream));
        Ok(streams)
    }

    fn spend(&mut self, steps: usize) -> Result<(), Spent> {
        let left = self.left.checked_sub(1 + steps as u64);
        self.left = left.ok_or(Spent)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
