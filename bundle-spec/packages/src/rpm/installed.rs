//! What rpm says is installed on a node.

use std::collections::{HashMap, HashSet};

use kubexm_spec::Digest;

use super::dependency::{Kind, Lines};
use super::file::comparison;
use super::filelists::in_primary;
use super::version::Evr;
use crate::deb::status::INSTALLED;
use crate::model::{Deferred, MultiArch, Package, Provide};

/// What `rpm -qa --queryformat` is given: a line for each package, and after it a line for each thing that it is, needs, cannot
/// stand, takes the place of, and has. Every rpm since EL7's (4.11) understands it; `\t` and `\n` are for rpm to read.
pub const QUERY: &str = "N\\t%{NAME}\\t%|EPOCH?{%{EPOCH}}:{0}|\\t%{VERSION}\\t%{RELEASE}\\t%{ARCH}\\n\
    [P\\t%{PROVIDENAME}\\t%{PROVIDEFLAGS}\\t%{PROVIDEVERSION}\\n]\
    [R\\t%{REQUIRENAME}\\t%{REQUIREFLAGS}\\t%{REQUIREVERSION}\\n]\
    [C\\t%{CONFLICTNAME}\\t%{CONFLICTFLAGS}\\t%{CONFLICTVERSION}\\n]\
    [O\\t%{OBSOLETENAME}\\t%{OBSOLETEFLAGS}\\t%{OBSOLETEVERSION}\\n]\
    [F\\t%{FILENAMES}\\n]";

/// What rpm writes for what a package has none of.
const NONE: &str = "(none)";
/// rpm keeps keys like packages.
const KEY: &str = "gpg-pubkey";
/// Of a line in an error.
const SHOWN: usize = 120;

/// The most lines: each takes some 100 bytes of memory, and some hosts have a hundred thousand.
const LINES: usize = 1_000_000;
/// The most versions of one name: each is compared with the others. A host has three kernels, or a dozen.
pub(crate) const VERSIONS: usize = 32;
/// The longest name, version or architecture of a package, and the longest of what it is and needs, in bytes.
const PACKAGE: usize = 255;
const NAME: usize = 4096;

/// What is no list of installed packages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the installed packages {why}: {text:?}")]
pub struct InstalledError {
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: &'static str,
    /// Cut to a readable length.
    pub text: String,
}

/// The lines that [`read`] looks at, each once a package. Of files those that an index would list: a node has a hundred thousand,
/// and nothing asks for the others.
pub fn reduced(said: &str) -> String {
    let mut kept = String::new();
    let mut of_package: HashSet<&str> = HashSet::new();
    for line in said.lines() {
        let (kind, rest) = line.split_once('\t').unwrap_or_default();
        let wanted = match kind {
            "N" => {
                of_package.clear();
                true
            }
            "F" => in_primary(rest) && of_package.insert(line),
            "P" | "R" | "C" | "O" => !rest.starts_with(NONE) && !rest.starts_with("rpmlib(") && of_package.insert(line),
            _ => true,
        };
        if wanted {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// All that is installed, in the order of the list; every architecture, since a foreign one may stand in the way too. They have no
/// location, no size and no digest.
pub fn read(list: &str) -> Result<Vec<Package>, InstalledError> {
    let mut installed: Vec<Package> = Vec::new();
    let mut lines = Lines::default();
    // What follows a key is the key's.
    let mut of_key = false;
    let mut versions: HashMap<&str, usize> = HashMap::new();
    let mut left = LINES;
    for (place, line) in list.lines().enumerate() {
        let no = |why| InstalledError { line: place + 1, why, text: line.chars().take(SHOWN).collect() };
        let wrong = || no("is not in the format that rpm was asked for");
        left = left.checked_sub(lines_of(line)).ok_or_else(|| no("is one more than any host has"))?;
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["N", name, epoch, version, release, arch] if !name.is_empty() && !version.is_empty() => {
                finish(&mut installed, std::mem::take(&mut lines), of_key);
                of_key = name == KEY;
                if [name, epoch, version, release, arch].iter().any(|field| field.len() > PACKAGE) {
                    return Err(no("has a longer name or version than any package"));
                }
                if !of_key {
                    let count = versions.entry(name).or_default();
                    *count += 1;
                    if *count > VERSIONS {
                        return Err(no("is one more version of a package than any host has"));
                    }
                    installed.push(package(name, &Evr::written(epoch, version, Some(release)), arch));
                }
            }
            ["X" | "L", ..] => {}
            _ if of_key => {}
            [kind @ ("P" | "R" | "C" | "O"), name, flags, version] => {
                let package = installed.last_mut().ok_or_else(wrong)?;
                if name == NONE {
                    continue;
                }
                if version.len() > NAME || (name.len() > NAME && !name.starts_with('(')) {
                    return Err(no("has a longer name or version than any package"));
                }
                let flags: u64 = flags.parse().map_err(|_| wrong())?;
                let evr = Evr::parse(version);
                let version = (!version.is_empty()).then(|| Evr::written(evr.epoch, evr.version, evr.release));
                let version = comparison(flags).zip(version);
                match kind {
                    "P" => provide(package, name, version),
                    kind => {
                        let kind = match kind {
                            "R" => Kind::Requires,
                            "C" => Kind::Conflicts,
                            _ => Kind::Obsoletes,
                        };
                        lines.push(kind, name, version.as_ref().map(|(how, version)| (*how, version.as_str())));
                    }
                }
            }
            ["F", path] => {
                let package = installed.last_mut().ok_or_else(wrong)?;
                if path != NONE {
                    package.files.push(path.into());
                }
            }
            _ => return Err(wrong()),
        }
    }
    finish(&mut installed, lines, of_key);
    Ok(installed)
}

/// As how many lines one counts: in parentheses it may name a package in each five bytes.
fn lines_of(line: &str) -> usize {
    match line.split('\t').nth(1) {
        Some(name) if name.starts_with('(') => 1 + name.len() / 5,
        _ => 1,
    }
}

/// Packages of which a list has several versions of one architecture, though only one can be: an update was cut off after the newer
/// one came and before the older one went. Kernels stand side by side as a rule (`installonlypkgs` of dnf.conf(5)).
pub fn cut_off(installed: &[Package]) -> HashSet<&str> {
    let mut counted: HashMap<(&str, &str), usize> = HashMap::new();
    for package in installed.iter().filter(|package| !is_side_by_side(package)) {
        *counted.entry((&package.name, &package.arch)).or_default() += 1;
    }
    counted.into_iter().filter(|(_, count)| *count > 1).map(|((name, _), _)| name).collect()
}

/// Whether a list has several versions of anything, be they kernels: a quick look before it is read.
pub fn has_twins(list: &str) -> bool {
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    let packages = list.lines().filter_map(|line| line.strip_prefix("N\t")?.split_once('\t'));
    let mut packages = packages.filter(|(name, _)| *name != KEY);
    packages.any(|(name, rest)| !seen.insert((name, rest.rsplit('\t').next().unwrap_or_default())))
}

fn is_side_by_side(package: &Package) -> bool {
    let says = |name: &str| name.starts_with("installonlypkg(") || name.starts_with("multiversion(");
    package.name.starts_with("kernel") || package.provides.iter().any(|provide| says(&provide.name))
}

fn finish(installed: &mut [Package], lines: Lines, of_key: bool) {
    if let Some(package) = installed.last_mut().filter(|_| !of_key) {
        package.relations = Deferred::Rpm(lines.finish());
    }
}

/// Its own name and version are not listed, as in an index.
fn provide(package: &mut Package, name: &str, version: Option<(crate::model::Comparison, String)>) {
    let version: Option<(_, Box<str>)> = version.map(|(how, version)| (how, version.into()));
    let own = *name == *package.name && version.as_ref().is_some_and(|(_, version)| *version == package.version);
    if !own {
        package.provides.push(Provide { name: name.into(), version });
    }
}

fn package(name: &str, version: &str, arch: &str) -> Package {
    Package {
        name: name.into(),
        version: version.into(),
        arch: arch.into(),
        repo: INSTALLED,
        location: "".into(),
        size: 0,
        digest: Digest::from_bytes([0; 32]),
        installed_size: 0,
        provides: Vec::new(),
        files: Vec::new(),
        multi_arch: MultiArch::No,
        module: None,
        essential: false,
        priority: 3,
        relations: Deferred::Rpm("".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Comparison, Requirement};

    const SAID: &str = "N\tgpg-pubkey\t0\t5a6340b3\t6229229e\t(none)\nP\tgpg(x)\t8\t4:1-2\nR\t(none)\t(none)\t(none)\n\
        N\tsocat\t2\t1.7\t3.el9\tx86_64\nP\tsocat\t8\t2:1.7-3.el9\nP\tsocat(x86-64)\t8\t2:1.7-3.el9\n\
        R\t/bin/sh\t0\t\nR\tlibc.so.6()(64bit)\t16384\t\nR\tlibc.so.6()(64bit)\t16384\t\nR\trpmlib(X)\t16777226\t4.0\n\
        R\t(a if b)\t0\t\nC\told\t10\t0:1.0\nO\t(none)\t(none)\t(none)\nF\t/usr/bin/socat\nF\t/usr/share/doc/socat\n\
        N\tempty\t0\t1\t1\tnoarch\nF\t(none)\n";

    #[test]
    fn output_of_rpm_is_read_without_keys_and_unused_fields() {
        let list = reduced(SAID);
        assert!(!list.contains("/usr/share") && !list.contains("rpmlib") && list.matches("libc.so.6").count() == 1);
        let read = read(&list).unwrap();
        let reported: Vec<_> = read.iter().map(|one| (&*one.name, &*one.version, &*one.arch)).collect();
        assert_eq!(reported, [("socat", "2:1.7-3.el9", "x86_64"), ("empty", "1-1", "noarch")]);
        let socat = &read[0];
        assert_eq!(socat.provides.len(), 1);
        assert_eq!(socat.provides[0].version, Some((Comparison::Equal, "2:1.7-3.el9".into())));
        assert_eq!(socat.files, ["/usr/bin/socat".into()]);
        let relations = socat.relations().unwrap();
        assert_eq!(relations.requires.len(), 3);
        assert!(matches!(relations.requires[2], Requirement::If { .. }));
        let [Requirement::One(old)] = &relations.conflicts[..] else { panic!("{relations:?}") };
        assert_eq!(old.version, Some((Comparison::LessOrEqual, "1.0".into())));
        assert!(relations.obsoletes.is_empty() && read[1].relations().unwrap().requires.is_empty());
    }

    #[test]
    fn a_text_that_is_no_list_is_refused_with_its_line() {
        assert_eq!(read("error: cannot open Packages database\n").unwrap_err().line, 1);
        assert_eq!(read("R\tx\t0\t\n").unwrap_err().line, 1);
        assert_eq!(read("N\ta\t0\t1\t1\tnoarch\nR\tx\tmany\t\n").unwrap_err().line, 2);
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn a_list_of_more_than_any_host_has_is_refused_before_it_is_compared_with_anything() {
        let kernels = |count: usize| -> String { (0..count).map(|at| format!("N\tkernel\t0\t{at}\t1\tx\n")).collect() };
        assert_eq!(read(&kernels(VERSIONS)).unwrap().len(), VERSIONS);
        let long = "x".repeat(NAME + 1);
        let boolean = format!("R\t(a{})\t0\t\n", " or a".repeat(10_000));
        for (list, why) in [
            (kernels(VERSIONS + 1), "one more version of a package than any host has"),
            (format!("N\ta\t0\t1\t1\tx\n{}", "F\tx\n".repeat(LINES)), "one more than any host has"),
            (format!("N\ta\t0\t1\t1\tx\n{}", boolean.repeat(LINES / 10_000)), "one more than any host has"),
            (format!("N\ta\t0\t{}\t1\tx\n", &long[..256]), "longer name or version than any package"),
            (format!("N\ta\t0\t1\t1\tx\nP\ta\t8\t{long}\n"), "longer name or version than any package"),
        ] {
            let error = read(&list).unwrap_err().to_string();
            assert!(error.contains(why) && error.len() < 400, "{error}");
        }
    }
}
