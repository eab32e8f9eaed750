//! Whether one package is what another one wants.

use kubexm_spec::Family;

use crate::family::compare;
use crate::model::{ArchWanted, Comparison, Constraint, MultiArch, Package, Provide};
use crate::rpm;

/// Whether the package's own name and version are what is wanted.
pub(super) fn by_name(family: Family, package: &Package, wanted: &Constraint) -> bool {
    if package.name != wanted.name {
        return false;
    }
    match (family, &wanted.version) {
        (_, None) => true,
        (Family::Deb, Some((comparison, version))) => comparison.holds(compare(family, &package.version, version)),
        (Family::Rpm, Some((comparison, version))) => {
            rpm::version::meets(Some((Comparison::Equal, &package.version)), Some((*comparison, version)))
        }
    }
}

/// Whether something that a package provides is what is wanted; its name is not looked at.
pub(super) fn by_provide(family: Family, provide: &Provide, wanted: &Constraint) -> bool {
    let Some((comparison, version)) = &wanted.version else { return true };
    let provided = provide.version.as_ref().map(|(comparison, version)| (*comparison, &**version));
    match family {
        // Debian Policy 7.5: what is provided without a version satisfies no versioned relation.
        Family::Deb => provided.is_some_and(|(_, provided)| comparison.holds(compare(family, provided, version))),
        Family::Rpm => rpm::version::meets(provided, Some((*comparison, version))),
    }
}

/// Whether the package's architecture will do (dpkg's `deparchsatisfied`). Who wants it is of the system's architecture.
pub(super) fn by_arch(family: Family, native: &str, package: &Package, wanted: &Constraint) -> bool {
    if family == Family::Rpm {
        return true;
    }
    let own = if &*package.arch == family.any_arch() { native } else { &package.arch };
    match &wanted.arch {
        ArchWanted::Every => true,
        ArchWanted::Any => package.multi_arch == MultiArch::Allowed,
        // `Multi-Arch: foreign` is an answer to relations that name no architecture, and to no others.
        ArchWanted::Own => own == native || package.multi_arch == MultiArch::Foreign,
        ArchWanted::Native => own == native,
        ArchWanted::Named(arch) => own == &**arch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Deferred, RepoId};

    fn package(version: &str, arch: &str, multi_arch: MultiArch) -> Package {
        Package {
            name: "p".into(),
            version: version.into(),
            arch: arch.into(),
            repo: RepoId(0),
            location: "".into(),
            size: 0,
            digest: kubexm_spec::Digest::of(version),
            installed_size: 0,
            provides: Vec::new(),
            files: Vec::new(),
            multi_arch,
            module: None,
            essential: false,
            priority: 3,
            relations: Deferred::Ready(Box::default()),
        }
    }

    fn wanted(arch: ArchWanted, version: Option<(Comparison, &str)>) -> Constraint {
        Constraint {
            name: "p".into(),
            arch,
            version: version.map(|(comparison, version)| (comparison, version.into())),
        }
    }

    #[test]
    fn a_provide_without_a_version_satisfies_a_versioned_relation_of_rpm_only() {
        let bare = Provide { name: "v".into(), version: None };
        let one = Provide { name: "v".into(), version: Some((Comparison::Equal, "1".into())) };
        let at_least = wanted(ArchWanted::Own, Some((Comparison::GreaterOrEqual, "1")));
        assert!(!by_provide(Family::Deb, &bare, &at_least));
        assert!(by_provide(Family::Rpm, &bare, &at_least));
        assert!(by_provide(Family::Deb, &one, &at_least) && by_provide(Family::Rpm, &one, &at_least));
        let greater = wanted(ArchWanted::Own, Some((Comparison::Greater, "1")));
        assert!(!by_provide(Family::Deb, &one, &greater) && !by_provide(Family::Rpm, &one, &greater));
    }

    #[test]
    fn a_version_without_a_release_stands_for_every_release_of_it_in_rpm() {
        let wanted = wanted(ArchWanted::Own, Some((Comparison::Equal, "1.0")));
        assert!(by_name(Family::Rpm, &package("1.0-5", "x86_64", MultiArch::No), &wanted));
        assert!(!by_name(Family::Deb, &package("1.0-5", "amd64", MultiArch::No), &wanted));
    }

    #[test]
    fn qualifiers_mean_what_dpkg_means_by_them() {
        let fits = |arch: &str, multi, wants: &ArchWanted| {
            by_arch(Family::Deb, "amd64", &package("1", arch, multi), &wanted(wants.clone(), None))
        };
        let (own, any) = (ArchWanted::Own, ArchWanted::Any);
        assert!(fits("amd64", MultiArch::No, &own) && fits("all", MultiArch::No, &own));
        assert!(!fits("i386", MultiArch::Same, &own) && fits("i386", MultiArch::Foreign, &own));
        assert!(!fits("i386", MultiArch::Allowed, &own));
        assert!(!fits("amd64", MultiArch::No, &any) && fits("amd64", MultiArch::Allowed, &any));
        assert!(!fits("amd64", MultiArch::Foreign, &any) && !fits("amd64", MultiArch::Same, &any));
        assert!(!fits("all", MultiArch::Foreign, &any) && fits("all", MultiArch::Allowed, &any));
        assert!(fits("i386", MultiArch::Allowed, &any));
        let i386 = ArchWanted::Named("i386".into());
        assert!(!fits("amd64", MultiArch::Foreign, &i386) && fits("i386", MultiArch::Foreign, &i386));
        assert!(!fits("i386", MultiArch::Foreign, &ArchWanted::Native));
        assert!(fits("amd64", MultiArch::No, &ArchWanted::Named("amd64".into())));
        assert!(!fits("amd64", MultiArch::No, &ArchWanted::Named("i386".into())));
        assert!(fits("amd64", MultiArch::No, &ArchWanted::Native));
    }
}
