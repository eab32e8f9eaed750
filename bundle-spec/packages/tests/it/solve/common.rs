//! Small pools from lines of text.

use kubexm_packages::model::{Comparison, Deferred, MultiArch, Package, Provide, RepoId};
use kubexm_packages::rpm::dependency::{self, Kind, Lines};
use kubexm_packages::solve::{Baseline, Closure, Pool, Repo, Root, Unsolvable, solve};
use kubexm_spec::{Digest, Family};

/// `name version [repository]; Field: value; …`. Fields of deb as in an index (and `Files` of none); of rpm `R`, `C`, `O`, `P` with
/// one dependency, `F` with one path, each as often as wanted.
pub fn package(family: Family, line: &str) -> Package {
    let mut parts = line.split(';').map(str::trim);
    let mut head = parts.next().unwrap().split_whitespace();
    let (name, version) = (head.next().unwrap(), head.next().unwrap());
    let repo = RepoId(head.next().map_or(0, |repo| repo.parse().unwrap()));
    let mut package = Package {
        name: name.into(),
        version: version.into(),
        arch: family.any_arch().into(),
        repo,
        location: format!("{name}_{version}").into(),
        size: 1,
        digest: Digest::of(line),
        installed_size: 0,
        provides: Vec::new(),
        files: Vec::new(),
        multi_arch: MultiArch::No,
        module: None,
        essential: false,
        priority: 3,
        relations: Deferred::Rpm("".into()),
    };
    let [mut pre_depends, mut depends, mut conflicts, mut breaks]: [Box<str>; 4] = Default::default();
    let mut lines = Lines::default();
    for part in parts.filter(|part| !part.is_empty()) {
        let (field, value) = part.split_once(':').unwrap();
        let value = value.trim();
        match field {
            "Pre-Depends" => pre_depends = value.into(),
            "Depends" => depends = value.into(),
            "Conflicts" => conflicts = value.into(),
            "Breaks" => breaks = value.into(),
            "Priority" => package.priority = value.parse().unwrap(),
            "Arch" => package.arch = value.into(),
            "Multi-Arch" => package.multi_arch = multi_arch(value),
            "Provides" => package.provides.extend(value.split(',').map(|one| provide(one.trim()))),
            "F" => package.files.push(value.into()),
            "P" => package.provides.push(provide(value)),
            "R" => push(&mut lines, Kind::Requires, value),
            "C" => push(&mut lines, Kind::Conflicts, value),
            "O" => push(&mut lines, Kind::Obsoletes, value),
            other => panic!("{other}"),
        }
    }
    package.relations = match family {
        Family::Deb => Deferred::Deb { pre_depends, depends, conflicts, breaks },
        Family::Rpm => Deferred::Rpm(lines.finish()),
    };
    package
}

fn multi_arch(text: &str) -> MultiArch {
    match text {
        "same" => MultiArch::Same,
        "foreign" => MultiArch::Foreign,
        "allowed" => MultiArch::Allowed,
        other => panic!("{other}"),
    }
}

/// `name`, `name (= 1)` or `name = 1`.
fn provide(text: &str) -> Provide {
    let mut words =
        text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '=')).filter(|word| !word.is_empty());
    let name = words.next().unwrap().into();
    Provide { name, version: words.next().map(|version| (Comparison::Equal, version.into())) }
}

fn push(lines: &mut Lines, kind: Kind, text: &str) {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [name, comparison, version] if !name.starts_with('(') => {
            let comparison = dependency::comparison(match comparison {
                "=" => "EQ",
                "<" => "LT",
                "<=" => "LE",
                ">" => "GT",
                ">=" => "GE",
                other => panic!("{other}"),
            });
            lines.push(kind, name, Some((comparison.unwrap(), version)));
        }
        _ => lines.push(kind, text, None),
    }
}

pub fn packages(family: Family, text: &str) -> Vec<Package> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| package(family, line)).collect()
}

pub fn repos() -> Vec<Repo> {
    (0..3).map(|at| Repo { id: format!("repo{at}"), base: format!("http://mirror/{at}"), priority: 0 }).collect()
}

pub fn pool(family: Family, text: &str) -> Pool {
    let arch = if family == Family::Deb { "amd64" } else { "x86_64" };
    Pool::new(family, arch, repos(), packages(family, text))
}

pub fn baseline(family: Family, text: &str) -> Baseline {
    Baseline { packages: packages(family, text), ..Baseline::default() }
}

/// `name` or `name=version`.
pub fn roots(text: &str) -> Vec<Root> {
    text.split_whitespace()
        .map(|word| match word.split_once('=') {
            Some((name, version)) => Root { name: name.into(), version: Some((Comparison::Equal, version.into())) },
            None => Root::named(word),
        })
        .collect()
}

pub fn solved(pool: &Pool, wanted: &str, baseline: &Baseline) -> Result<Closure, Unsolvable> {
    solve(pool, &roots(wanted), baseline)
}

/// Names and versions of the answer, or why there is none.
pub fn answer(pool: &Pool, wanted: &str, baseline: &Baseline) -> String {
    match solved(pool, wanted, baseline) {
        Ok(closure) => {
            let shown = closure.packages.iter().map(|chosen| {
                let package = pool.package(chosen.package);
                format!("{} {}", package.name, package.version)
            });
            shown.collect::<Vec<_>>().join(", ")
        }
        Err(unsolvable) => format!("no: {unsolvable}"),
    }
}
