//! Our side: the same indexes, through the builder's origin, and the solver.

use std::collections::BTreeSet;

use kubexm_builder::origins::packages::{Loaded, Options, deb};
use kubexm_manifests::os::Profiles;
use kubexm_packages::solve::{Baseline, Root, solve};
use kubexm_spec::Arch;
use kubexm_transport::{FileCandidate, HttpClient, HttpOptions, Store};

use crate::apt_referee::mirror::Mirror;
use crate::apt_referee::sets::Distribution;

pub struct Pool {
    loaded: Loaded,
}

impl Pool {
    pub fn load(distribution: &Distribution, arch: Arch, mirror: &Mirror) -> Self {
        // Installed already by the other thread, maybe.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = Store::open(mirror.cache()).unwrap();
        let http = HttpClient::new(HttpOptions { proxies: false, ..HttpOptions::default() }).unwrap();
        let profiles = Profiles::embedded();
        let profile = profiles.get(distribution.profile).unwrap();
        let suites: Vec<_> = deb::suites(profile, profiles, arch, &|_| Vec::new())
            .unwrap()
            .into_iter()
            .filter_map(|suite| {
                let (_, tree) = distribution.suites.iter().find(|(name, _)| *name == suite.suite)?;
                let components = distribution.components.iter().map(|name| (*name).to_owned()).collect();
                Some(deb::Suite { bases: vec![FileCandidate::new(mirror.url(tree))], components, ..suite })
            })
            .collect();
        assert_eq!(suites.len(), distribution.suites.len(), "the profile lacks one of {:?}", distribution.suites);
        let options = Options { now: mirror.now, plain_http: true };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let loaded = runtime.block_on(deb::load(&suites, arch, &http, &store, &options));
        Self { loaded: loaded.unwrap_or_else(|error| panic!("{error}")) }
    }

    /// Addresses of what is needed; the reasons where there is no way.
    pub fn solve(&self, roots: &[&str]) -> Result<BTreeSet<String>, String> {
        let roots: Vec<Root> = roots.iter().map(|name| Root::named(*name)).collect();
        let pool = &self.loaded.pool;
        let closure = solve(pool, &roots, &Baseline::default()).map_err(|error| error.to_string())?;
        Ok(closure
            .packages
            .iter()
            .map(|chosen| {
                let package = pool.package(chosen.package);
                format!("{}/{}", pool.repos()[usize::from(package.repo.0)].base, package.location)
            })
            .collect())
    }
}
