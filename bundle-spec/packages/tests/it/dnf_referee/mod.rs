//! Our readers and solver of rpm's family against rpm and dnf themselves: packages that hold a trap each are built by rpmbuild and
//! listed by createrepo_c, and both sides resolve the same sets from an empty machine.
//!
//! No index of a real distribution of this family can be had where these tests were written: what they show is that we decide as
//! dnf does, not that a given distribution resolves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test dies of what it did not expect")]

mod dnf;
mod modular;
mod ours;
mod published;
mod repos;
mod traps;
mod versions;

use std::path::{Path, PathBuf};

/// Repositories and what is chosen of them.
struct Universe {
    arch: &'static str,
    platform: &'static str,
    repos: Vec<Repo>,
    enabled: &'static [(&'static str, &'static str)],
}

/// A repository in a folder.
struct Repo {
    id: &'static str,
    folder: PathBuf,
    hotfixes: bool,
    /// As dnf has it: the smaller is asked first.
    priority: i32,
}

fn repo(id: &'static str, folder: &Path) -> Repo {
    Repo { id, folder: folder.to_owned(), hotfixes: false, priority: 99 }
}

/// Sets for which we have another answer than dnf, and why ours is right.
type Better = [(&'static [&'static str], &'static str)];

fn compare(universe: &Universe, sets: &[&[&str]], better: &Better) {
    let ours = ours::Ours::load(universe);
    let mut reported = Vec::new();
    for (set, theirs) in sets.iter().zip(dnf::resolve(universe, sets)) {
        let mine = ours.solve(set);
        let same = match (&theirs, &mine) {
            (Ok(theirs), Ok(mine)) => theirs == mine,
            (Err(_), Err(_)) => true,
            _ => false,
        };
        let excused = better.iter().any(|(excused, _)| excused == set);
        if same == excused {
            reported.push(format!("{set:?} (excused: {excused})\n  dnf: {theirs:?}\n  we:  {mine:?}"));
        }
    }
    let (count, enabled) = (sets.len(), universe.enabled);
    assert!(reported.is_empty(), "{} of {count} sets, enabled {enabled:?}:\n{}", reported.len(), reported.join("\n"));
}

#[test]
fn traps_of_dependencies_are_resolved_as_dnf_does() {
    let folder = tempfile::tempdir().unwrap();
    let made = repos::build(folder.path(), &traps::packages());
    let repos = made.iter().map(|(id, folder)| repo(id, folder));
    let universe = Universe { arch: "x86_64", platform: "el9", repos: repos.collect(), enabled: &[] };
    compare(&universe, traps::SETS, &[]);
}

#[test]
fn module_filters_leave_the_same_packages_as_dnf() {
    let folder = tempfile::tempdir().unwrap();
    let made = repos::build(folder.path(), &modular::packages());
    repos::add_modules(&made["stream"], &modular::document());
    for enabled in modular::ENABLED {
        let repos = made.iter().map(|(id, folder)| Repo { hotfixes: *id == "hot", ..repo(id, folder) });
        let universe = Universe { arch: "x86_64", platform: "el8", repos: repos.collect(), enabled };
        compare(&universe, modular::SETS, &[]);
    }
}
