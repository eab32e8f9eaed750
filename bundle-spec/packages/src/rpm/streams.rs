//! Which streams are active, and which packages they leave to be seen: what dnf's modular filtering does.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Build, Modules};
use super::version::{self, Evr};
use crate::model::{Package, RepoId};

/// How many builds are looked at before a search for streams is given up: real repositories need a few hundred.
const STEPS: u32 = 100_000;
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

/// A requested stream that cannot be enabled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the module stream {module}:{stream} cannot be enabled: {why}")]
pub struct ModuleError {
    /// The module.
    pub module: String,
    /// The stream.
    pub stream: String,
    /// What is missing.
    pub why: String,
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
        for build in active.iter().filter_map(|place| self.builds.get(*place)) {
            names.retain(|name| !build.demodularized.contains(*name));
        }
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
        for (module, stream) in choice.enabled {
            let error = |why: String| ModuleError { module: (*module).to_owned(), stream: (*stream).to_owned(), why };
            let build = self.builds.iter().find(|build| build.module == *module && build.stream == *stream);
            let build = build.ok_or_else(|| error(self.known(module)))?;
            let mut search = Search { modules: self, choice, steps: STEPS };
            if !search.enable(&mut streams, &build.module, &build.stream, 0) {
                return Err(error("no build of it fits this machine and the other streams".to_owned()));
            }
        }
        for (module, stream) in &self.defaults {
            if let Some(stream) = stream.as_ref().filter(|_| !streams.contains_key(module.as_str())) {
                // A default that cannot be had is none.
                Search { modules: self, choice, steps: STEPS }.enable(&mut streams, module, stream, 0);
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

    /// Streams of a module that would do, the likeliest first: what is chosen already, its default, the newest.
    fn candidates<'a>(&'a self, module: &str, wanted: &[String], chosen: &Streams<'a>) -> Vec<&'a str> {
        if let Some(stream) = chosen.get(module) {
            return if allows(wanted, stream) { vec![stream] } else { Vec::new() };
        }
        let builds = self.builds.iter().filter(|build| build.module == module && allows(wanted, &build.stream));
        let mut streams: Vec<&str> = builds.map(|build| build.stream.as_str()).collect();
        let default = self.defaults.get(module).and_then(Option::as_deref);
        streams.sort_by(|one, other| {
            (default == Some(*other)).cmp(&(default == Some(*one))).then_with(|| version::part(other, one))
        });
        streams.dedup();
        streams
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
/// A search for streams that go together.
struct Search<'a> {
    modules: &'a Modules,
    choice: &'a Choice<'a>,
    steps: u32,
}

impl<'a> Search<'a> {
    /// Adds a stream and what it needs, or nothing.
    fn enable(&mut self, streams: &mut Streams<'a>, module: &'a str, stream: &'a str, depth: u32) -> bool {
        if let Some(chosen) = streams.get(module) {
            return *chosen == stream;
        }
        let (modules, choice) = (self.modules, self.choice);
        let fits = |build: &&Build| build.module == module && build.stream == stream && build.runs_on(choice);
        let mut builds: Vec<&Build> = modules.builds.iter().filter(fits).collect();
        builds.sort_by(|one, other| (other.version, &one.context).cmp(&(one.version, &other.context)));
        for build in builds {
            if depth == DEPTH || self.steps == 0 {
                return false;
            }
            self.steps -= 1;
            let mut trial = streams.clone();
            trial.insert(module, stream);
            let mut needs = build.requires.iter().filter(|(module, _)| module != PLATFORM);
            let met = needs.all(|(needed, wanted)| {
                let candidates = modules.candidates(needed, wanted, &trial);
                candidates.into_iter().any(|stream| self.enable(&mut trial, needed, stream, depth + 1))
            });
            if met {
                *streams = trial;
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use kubexm_spec::Digest;

    use super::*;
    use crate::model::{Deferred, MultiArch, Provide};

    const TEXT: &str = "
---
{document: modulemd, version: 2, data: {name: db, stream: '10', version: 1, context: a, arch: x86_64,
  dependencies: [{requires: {platform: [el8], lang: ['1', '2']}}], artifacts: {rpms: [db-0:10-1.x86_64, tool-0:1-1.src]}}}
---
{document: modulemd, version: 2, data: {name: db, stream: '11', version: 1, context: a, arch: x86_64,
  dependencies: [{requires: {platform: [el8], lang: ['2']}}], artifacts: {rpms: [db-0:11-1.x86_64]}}}
---
{document: modulemd, version: 2, data: {name: lang, stream: '1', version: 1, context: a, arch: x86_64,
  dependencies: [{requires: {platform: [el8]}}], artifacts: {rpms: [lang-0:1-1.x86_64]}}}
---
{document: modulemd, version: 2, data: {name: lang, stream: '2', version: 1, context: a, arch: x86_64,
  dependencies: [{requires: {platform: [-el7]}}], artifacts: {rpms: [lang-0:2-1.x86_64]}}}
---
{document: modulemd-defaults, version: 1, data: {module: db, stream: '10'}}
---
{document: modulemd-defaults, version: 1, data: {module: lang, stream: '1'}}
";

    fn package(name: &str, version: &str, provides: &[&str], repo: u16) -> Package {
        let provides = provides.iter().map(|name| Provide { name: (*name).into(), version: None });
        Package {
            name: name.into(),
            version: version.into(),
            arch: "x86_64".into(),
            repo: RepoId(repo),
            location: "x.rpm".into(),
            size: 1,
            digest: Digest::of(name),
            installed_size: 0,
            provides: provides.collect(),
            files: Vec::new(),
            multi_arch: MultiArch::No,
            module: None,
            essential: false,
            priority: 3,
            relations: Deferred::Rpm("".into()),
        }
    }

    fn seen(choice: &Choice<'_>) -> Result<Vec<String>, ModuleError> {
        let packages = vec![
            package("db", "10-1", &[], 0),
            package("db", "11-1", &[], 0),
            package("db", "99-1", &[], 0),
            package("db", "98-1", &[], 1),
            package("lang", "1-1", &[], 0),
            package("lang", "2-1", &[], 0),
            package("fork", "1-1", &["lang"], 0),
            package("tool", "1-1", &[], 0),
        ];
        let visible = Modules::read(TEXT).unwrap().visible(packages, choice)?;
        let shown =
            visible.iter().map(|p| format!("{}-{}{}", p.name, p.version, if p.module.is_some() { "*" } else { "" }));
        Ok(shown.collect())
    }

    #[test]
    fn a_default_stream_hides_other_streams_and_its_names_elsewhere() {
        let choice = Choice { arch: "x86_64", platform: Some("el8"), enabled: &[], hotfixes: &[RepoId(1)] };
        assert_eq!(seen(&choice).unwrap(), ["db-10-1*", "db-98-1", "lang-1-1*", "tool-1-1"]);
    }

    #[test]
    fn an_enabled_stream_brings_the_streams_it_needs_and_outranks_defaults() {
        let choice = Choice { arch: "x86_64", platform: Some("el8"), enabled: &[("db", "11")], hotfixes: &[] };
        assert_eq!(seen(&choice).unwrap(), ["db-11-1*", "lang-2-1*", "tool-1-1"]);
    }

    #[test]
    fn a_stream_for_another_platform_or_machine_is_not_active() {
        let choice = Choice { arch: "x86_64", platform: Some("el7"), enabled: &[], hotfixes: &[] };
        assert_eq!(seen(&choice).unwrap(), ["db-99-1", "db-98-1", "fork-1-1", "tool-1-1"]);
        let choice = Choice { arch: "aarch64", platform: Some("el8"), ..choice };
        assert_eq!(seen(&choice).unwrap(), ["db-99-1", "db-98-1", "fork-1-1", "tool-1-1"]);
    }

    #[test]
    fn a_stream_that_cannot_be_had_is_reported_with_those_that_can() {
        let enabled = |enabled| Choice { arch: "x86_64", platform: Some("el8"), enabled, hotfixes: &[] };
        let error = seen(&enabled(&[("db", "12")])).unwrap_err().to_string();
        assert!(error.contains("db:12") && error.contains("10, 11"), "{error}");
        let error = seen(&enabled(&[("lang", "1"), ("db", "11")])).unwrap_err().to_string();
        assert!(error.contains("the other streams"), "{error}");
        assert!(seen(&enabled(&[("bd", "1")])).is_err());
    }
}
