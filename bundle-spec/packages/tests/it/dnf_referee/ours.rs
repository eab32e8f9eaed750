//! Our side: the metadata through our readers, and the solver.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use kubexm_packages::compression::{all_unpacked, unpacked};
use kubexm_packages::model::{Package, RepoId};
use kubexm_packages::rpm::modules::Modules;
use kubexm_packages::rpm::repomd::Repomd;
use kubexm_packages::rpm::streams::Choice;
use kubexm_packages::rpm::{filelists, fits, primary};
use kubexm_packages::solve::{Baseline, Pool, Repo, Root, solve};
use kubexm_spec::{Digest, Family};

use crate::dnf_referee::Universe;

/// The file of a repository, compared with repomd.xml.
fn file(folder: &Path, repomd: &Repomd, kind: &str) -> Option<Vec<u8>> {
    let data = repomd.get(kind)?;
    let bytes = fs::read(folder.join(&data.location)).unwrap();
    assert_eq!(Digest::of(&bytes), data.wanted().unwrap(), "{kind}");
    Some(bytes)
}

pub struct Ours {
    repos: Vec<Repo>,
    repomds: Vec<Repomd>,
    packages: Vec<Package>,
    arch: &'static str,
}

impl Ours {
    pub fn load(universe: &Universe) -> Self {
        let (mut repos, mut repomds, mut packages, mut modules) =
            (Vec::new(), Vec::new(), Vec::new(), Modules::default());
        let mut hotfixes = Vec::new();
        for (place, repo) in (0..).zip(&universe.repos) {
            let repomd = Repomd::read(fs::read(repo.folder.join("repodata/repomd.xml")).unwrap().as_slice()).unwrap();
            let bytes = file(&repo.folder, &repomd, "primary").unwrap();
            let reader = unpacked(bytes.as_slice()).unwrap();
            packages.extend(primary::read(reader, RepoId(place), |arch| fits(universe.arch, arch)).unwrap());
            if let Some(bytes) = file(&repo.folder, &repomd, "modules") {
                let text = String::from_utf8(all_unpacked(&bytes, 1 << 20).unwrap()).unwrap();
                modules.merge(Modules::read(&text).unwrap());
            }
            if repo.hotfixes {
                hotfixes.push(RepoId(place));
            }
            // dnf's smaller priority is asked first, ours the greater.
            let (id, base) = (repo.id.to_owned(), repo.folder.display().to_string());
            repos.push(Repo { id, base, priority: -repo.priority });
            repomds.push(repomd);
        }
        let choice = Choice {
            arch: universe.arch,
            platform: Some(universe.platform),
            enabled: universe.enabled,
            hotfixes: &hotfixes,
        };
        let packages = modules.visible(packages, &choice).unwrap();
        Self { repos, repomds, packages, arch: universe.arch }
    }

    fn files(&self, wanted: &BTreeSet<Box<str>>) -> Vec<Package> {
        let mut packages = self.packages.clone();
        for (repo, repomd) in self.repos.iter().zip(&self.repomds) {
            let bytes = file(Path::new(&repo.base), repomd, "filelists").unwrap();
            let found: BTreeMap<_, _> = filelists::read(unpacked(bytes.as_slice()).unwrap(), wanted).unwrap();
            filelists::add(&mut packages, &found).unwrap();
        }
        packages
    }

    /// `repo name-version.arch` of what is needed; why there is no way otherwise. Lists of files are read when they are needed.
    pub fn solve(&self, roots: &[&str]) -> Result<BTreeSet<String>, String> {
        let roots: Vec<Root> = roots.iter().map(|name| Root::named(*name)).collect();
        let (mut packages, mut wanted) = (self.packages.clone(), BTreeSet::new());
        loop {
            let pool = Pool::new(Family::Rpm, self.arch, self.repos.clone(), packages);
            let solved = solve(&pool, &roots, &Baseline::empty());
            let needed = match &solved {
                Ok(closure) => &closure.needs_files,
                Err(error) => &error.needs_files,
            };
            let before = wanted.len();
            wanted.extend(needed.iter().cloned());
            if wanted.len() > before {
                packages = self.files(&wanted);
                continue;
            }
            let shown = |package: &Package| {
                let repo = &self.repos[usize::from(package.repo.0)].id;
                format!("{repo} {}-{}.{}", package.name, package.version, package.arch)
            };
            let closure = solved.map_err(|error| error.to_string())?;
            return Ok(closure.packages.iter().map(|chosen| shown(pool.package(chosen.package))).collect());
        }
    }
}
