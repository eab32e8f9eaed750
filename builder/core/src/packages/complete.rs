//! Requirements → the packages of a lock: each as an item, and for each release its roots and its indexes.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use kubexm_manifests::requirements::PackageNeed;
use kubexm_manifests::{Requirements, Zone};
use kubexm_packages::model::Package;
use kubexm_packages::solve::{Because, Closure, Root};
use kubexm_spec::event::EventKind;
use kubexm_spec::lock::{Content, LockItem, PackageIndex, PackageSet};
use kubexm_spec::{ArtifactKey, Family, Lock, Platform, Trust};

use super::address::file_name_of;
use super::{Distribution, Solved};
use crate::origins::Origins;
use crate::origins::packages::{Loaded, Options};
use crate::places::files;
use crate::{BuildError, Report};

/// Indexes of a release are some hundred megabytes in memory.
const AT_ONCE: usize = 2;

/// What says which packages there are.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// Of the cluster.
    pub requirements: &'a Requirements,
    /// Where origins are rewritten to.
    pub zone: &'a Zone,
}

/// Puts packages into a lock that has none of them: of these needs, solved from what the repositories have now.
pub async fn complete(
    work: &Work<'_>,
    needs: &[PackageNeed],
    mut lock: Lock,
    origins: &Origins,
    report: Report<'_>,
) -> Result<Lock, BuildError> {
    if needs.is_empty() {
        return Ok(lock);
    }
    report(EventKind::Phase { name: "packages".to_owned() });
    let solving = needs.iter().map(|need| locked(need, work.zone, origins));
    let results: Vec<_> = stream::iter(solving).buffered(AT_ONCE).collect().await;
    let mut failures = Vec::new();
    for result in results {
        match result {
            Err(error) => failures.push(error),
            Ok((set, items, left_out)) => {
                left_out.into_iter().for_each(|text| report(EventKind::Warning { text }));
                let packages = kubexm_spec::counted_of(&items, "package");
                let text = format!("{} {}: {packages}", set.os, set.platform);
                report(EventKind::Note { text });
                lock.packages.push(set);
                lock.items.extend(items);
            }
        }
    }
    if !failures.is_empty() {
        return Err(BuildError::from_many(failures));
    }
    lock.packages.sort_by(|a, b| (&a.os, a.platform).cmp(&(&b.os, b.platform)));
    lock.items.sort_by(|a, b| (&a.key, a.platform).cmp(&(&b.key, b.platform)));
    Ok(lock)
}

type Locked = (PackageSet, Vec<LockItem>, Vec<String>);

async fn locked(need: &PackageNeed, zone: &Zone, origins: &Origins) -> Result<Locked, BuildError> {
    let failed = |source| BuildError::Packages { of: of(&need.os, need.platform), source: Box::new(source) };
    let distribution = Distribution::of_need(need, zone)?;
    let roots: Vec<Root> = need.names().into_iter().map(Root::named).collect();
    let options = Options::at(origins.now());
    let Solved { loaded, closure, left_out } =
        distribution.solve(&roots, &origins.http, &origins.store, &options).await.map_err(failed)?;
    let closure =
        closure.map_err(|unsolvable| BuildError::NoPackages { of: of(&need.os, need.platform), unsolvable })?;
    let (set, items) = Locking { need, profile: distribution.profile, loaded: &loaded, zone }.set(&closure);
    Ok((set, items, left_out))
}

fn of(os: &str, platform: Platform) -> String {
    format!("{os} {platform}")
}

/// A solved release on its way into a lock.
struct Locking<'a> {
    need: &'a PackageNeed,
    profile: &'a kubexm_manifests::os::Profile,
    loaded: &'a Loaded,
    zone: &'a Zone,
}

impl Locking<'_> {
    fn set(&self, closure: &Closure) -> (PackageSet, Vec<LockItem>) {
        let pool = &self.loaded.pool;
        let mut because = BTreeMap::new();
        let mut items = Vec::new();
        for chosen in &closure.packages {
            let package = pool.package(chosen.package);
            because.insert(package.name.to_string(), self.why(&chosen.because));
            items.push(self.item(package));
        }
        // By itself: what it needs is on the machines that have it.
        for (root, name) in self.need.roots.iter().flat_map(|root| root.replaces.iter().map(move |name| (root, name))) {
            let Some(id) = pool.candidate(name).filter(|_| !because.contains_key(name)) else { continue };
            because.insert(name.clone(), format!("{} replaces it, and this one is for the rollback", root.name));
            items.push(self.item(pool.package(id)));
        }
        let mut indexes: Vec<PackageIndex> = Vec::new();
        for snapshot in &self.loaded.snapshots {
            // Debian's components have one signed file.
            if !indexes.iter().any(|index| index.address == snapshot.address) {
                indexes.push(PackageIndex {
                    repository: snapshot.name.clone(),
                    address: snapshot.address.clone(),
                    digest: snapshot.digest,
                    date: snapshot.date,
                    signed: snapshot.signed,
                    trust_unsigned: snapshot.trust_unsigned,
                });
            }
        }
        let date = indexes.iter().filter_map(|index| index.date).max().unwrap_or_default();
        let PackageNeed { os, platform, roots, .. } = self.need.clone();
        (PackageSet { os, platform, roots, indexes, date, because }, items)
    }

    fn why(&self, because: &Because) -> String {
        match because {
            Because::Root(name) => {
                let root = self.need.roots.iter().find(|root| root.packages.iter().any(|one| **one == **name));
                format!("required by {}", root.map_or(&**name, |root| &root.name))
            }
            Because::Needed { by, wants } => match self.need.family {
                Family::Deb => format!("{by} Depends {wants}"),
                Family::Rpm => format!("{by} Requires {wants}"),
            },
            Because::InStep { .. } => because.to_string(),
        }
    }

    fn item(&self, package: &Package) -> LockItem {
        let origin = self.loaded.origin(package);
        let places = files(self.zone, &origin).into_iter().filter(|candidate| !candidate.is_local());
        let mut sources: Vec<String> = Vec::new();
        // Nothing but the lock knows the package's own, in whatever zone it is built later.
        for address in places.map(|candidate| candidate.url).chain([origin.clone()]) {
            if !sources.contains(&address) {
                sources.push(address);
            }
        }
        LockItem {
            key: ArtifactKey::Package { os: self.need.os.clone(), name: package.name.to_string() },
            version: package.version.to_string(),
            platform: Some(self.need.platform),
            trust: self.trust(package),
            sources,
            content: Content::File { file_name: file_name_of(&origin), digest: package.digest, size: package.size },
        }
    }

    /// Signed is what lists the digest, or the package itself, which is looked at when it has come.
    fn trust(&self, package: &Package) -> Trust {
        let Some(snapshot) = self.loaded.snapshot(package) else { return Trust::PinnedSha256 };
        let known = self.profile.repositories.iter().find(|one| one.name == snapshot.name);
        match snapshot.signed || known.is_some_and(|one| !one.trust.packages.is_empty()) {
            true => Trust::Gpg,
            false => Trust::PinnedSha256,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::file_name_of;

    #[test]
    fn a_file_is_called_as_in_its_pool_and_never_a_path() {
        for (address, wanted) in [
            ("http://d/pool/main/s/socat/socat_1.7.4.4-2_amd64.deb", "socat_1.7.4.4-2_amd64.deb"),
            (
                "http://d/pool/libstdc%2b%2b6_12.2.0-14%2Bdeb12u1_amd64.deb?x=1",
                "libstdc++6_12.2.0-14+deb12u1_amd64.deb",
            ),
            ("http://d/pool/a_1%3a2_amd64.deb", "a_1%3a2_amd64.deb"),
            ("http://d/pool/..%2f..%2fetc%2fpasswd", "..%2f..%2fetc%2fpasswd"),
            ("http://d/pool/a%", "a%"),
        ] {
            assert_eq!(file_name_of(address), wanted);
        }
    }
}
