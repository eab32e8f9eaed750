//! What a host has installed already.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Pool;
use crate::deb::status::Installed;
use crate::family::compare;
use crate::model::Package;
use crate::rpm::installed as rpm;

/// All that a host has installed. Nothing of it is ever removed or made older.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// In any order, of any architecture; repository, location, size and digest mean nothing here.
    pub packages: Vec<Package>,
    /// Names that the administrator holds at their version, or lets not come at all.
    pub held: BTreeSet<Box<str>>,
}

/// Packages whose installation was cut off, by name, with the version that is half there.
pub type CutOff = BTreeMap<Box<str>, Box<str>>;

impl Baseline {
    /// Of a host that has nothing: the closure is self-sufficient.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Of a host of dpkg's, for a plan over a pool. A package whose installation was cut off (half-installed, unpacked,
    /// half-configured, or to be reinstalled) does nobody's work: where the pool has that version, or a newer one to which it may be
    /// upgraded, it is left out, so that it comes whole. Otherwise it stays, since it may stand in the way.
    pub fn of_status(installed: Vec<Installed>, pool: &Pool) -> (Self, CutOff) {
        let mut baseline = Self::default();
        let mut cut_off = CutOff::new();
        for Installed { package, held, whole } in installed {
            if !whole {
                cut_off.insert(package.name.clone(), package.version.clone());
            }
            // One that is held comes at its own version.
            if !whole && comes_whole(&package, held, pool) {
                continue;
            }
            if held {
                baseline.held.insert(package.name.clone());
            }
            baseline.packages.push(package);
        }
        (baseline, cut_off)
    }

    /// The same of a host of rpm's: an update that was cut off has left two versions of a package, and the newer one counts. `list` says
    /// what of the pool the administrator lets not come.
    pub fn of_rpm(installed: Vec<Package>, list: &str, pool: &Pool) -> (Self, CutOff) {
        let held = crate::rpm::held::held(list, pool.packages());
        let twice: BTreeSet<Box<str>> = rpm::cut_off(&installed).into_iter().map(Box::from).collect();
        let mut last: HashMap<(&str, &str), &str> = HashMap::new();
        for package in &installed {
            let known = last.entry((&*package.name, &*package.arch)).or_insert(&*package.version);
            if compare(pool.family(), known, &package.version).is_lt() {
                *known = &package.version;
            }
        }
        let newest = |package: &Package| {
            let known = last.get(&(&*package.name, &*package.arch));
            known.is_none_or(|known| compare(pool.family(), known, &package.version).is_le())
        };
        let mut baseline = Self { held, ..Self::default() };
        let mut cut_off = CutOff::new();
        for package in &installed {
            let half = twice.contains(&package.name);
            if half && newest(package) {
                cut_off.insert(package.name.clone(), package.version.clone());
            }
            let comes = half && newest(package) && comes_whole(package, baseline.held.contains(&package.name), pool);
            if comes {
                // At the version at which it is held.
                baseline.held.remove(&package.name);
            } else if !half || newest(package) {
                baseline.packages.push(package.clone());
            }
        }
        (baseline, cut_off)
    }
}

fn comes_whole(half: &Package, held: bool, pool: &Pool) -> bool {
    let Some(carried) = pool.candidate(&half.name).map(|id| pool.package(id)) else { return false };
    let order = compare(pool.family(), &carried.version, &half.version);
    // Of a foreign architecture it is another package.
    (carried.arch == half.arch || [&carried.arch, &half.arch].iter().any(|arch| matches!(&***arch, "all" | "noarch")))
        && (order.is_eq() || (order.is_gt() && !held))
}

impl From<Vec<Installed>> for Baseline {
    fn from(installed: Vec<Installed>) -> Self {
        let held = installed.iter().filter(|one| one.held).map(|one| one.package.name.clone()).collect();
        Self { packages: installed.into_iter().map(|one| one.package).collect(), held }
    }
}

#[cfg(test)]
mod tests {
    use kubexm_spec::Family;

    use super::super::{PackageState, Repo, Root, node_plan};
    use super::*;
    use crate::rpm::installed;

    const SOCAT: &str = "N\tsocat\t0\t1.0\t1\tx86_64\n";
    const OLD: &str = "N\tsocat\t0\t0.9\t1\tx86_64\n";

    fn pool() -> Pool {
        let mut packages = installed::read(SOCAT).unwrap();
        packages[0].repo = crate::model::RepoId(0);
        let repo = Repo { id: "baseos".to_owned(), base: "https://a.example".to_owned(), priority: 0 };
        Pool::new(Family::Rpm, "x86_64", vec![repo], packages)
    }

    /// What becomes of socat on a host with this list.
    fn standing(list: &str) -> (String, Vec<String>) {
        let pool = pool();
        let (baseline, cut_off) = Baseline::of_rpm(installed::read(list).unwrap(), list, &pool);
        let plan = node_plan(&pool, &[Root::named("socat")], &baseline, &BTreeMap::new());
        let word = match &plan.roots[0].1 {
            PackageState::Satisfied { .. } => "satisfied".to_owned(),
            PackageState::Conflict(why) => format!("conflict: {why}"),
            _ => "comes".to_owned(),
        };
        (word, cut_off.iter().map(|(name, version)| format!("{name} {version}")).collect())
    }

    #[test]
    fn a_list_in_which_each_package_is_there_twice_is_gone_over_once() {
        let twice = |at: usize| format!("N\tp{at}\t0\t1\t1\tnoarch\nN\tp{at}\t0\t2\t1\tnoarch\n");
        let list: String = (0..50_000).map(twice).collect();
        let begun = std::time::Instant::now();
        let (baseline, cut_off) = Baseline::of_rpm(installed::read(&list).unwrap(), &list, &pool());
        // Each was compared with all: minutes.
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
        assert_eq!((baseline.packages.len(), cut_off.len()), (50_000, 50_000));
        assert!(baseline.packages.iter().all(|one| &*one.version == "2-1"));
    }

    #[test]
    fn excluded_or_locked_rpms_are_neither_installed_nor_upgraded() {
        for held in ["X\tsoc*\n", "L\tsocat\tsocat-0:0.9-1.*\n"] {
            for there in ["", OLD] {
                let list = format!("{there}{held}");
                let (word, _) = standing(&list);
                let stays = if there.is_empty() {
                    word.starts_with("conflict: ") && word.contains("socat")
                } else {
                    word == "satisfied"
                };
                assert!(stays, "{list}: {word}");
            }
        }
        assert_eq!(standing("L\tsocat\tsocat-0:1.0-1.*\n").0, "comes");
        assert_eq!(standing("X\tother\n").0, "comes");
    }

    #[test]
    fn an_interrupted_rpm_update_is_planned_again_and_kernels_are_installed_side_by_side() {
        assert_eq!(standing(&format!("{SOCAT}{OLD}")), ("comes".to_owned(), vec!["socat 1.0-1".to_owned()]));
        assert_eq!(standing(SOCAT), ("satisfied".to_owned(), vec![]));
        let newer = SOCAT.replace("1.0", "2.0");
        assert_eq!(standing(&format!("{newer}{OLD}")), ("satisfied".to_owned(), vec!["socat 2.0-1".to_owned()]));
        let kernels = "N\tkernel-core\t0\t5\t1\tx86_64\nN\tkernel-core\t0\t6\t1\tx86_64\n";
        assert_eq!(standing(&format!("{SOCAT}{kernels}")), ("satisfied".to_owned(), vec![]));
        assert!(installed::has_twins(&format!("{SOCAT}{OLD}")) && !installed::has_twins(SOCAT));
        let twins = SOCAT.replace("x86_64", "i686");
        assert!(!installed::has_twins(&format!("{SOCAT}{twins}")), "of another architecture it is another package");
    }
}
