//! What nodes need of their distributions' packages: a table of roots by role, and what cluster.yaml adds.

use kubexm_spec::cluster::{ExternalKind, LoadBalancerMode, OsPackages, ProxyMode};
use kubexm_spec::lock::PackageRoot;
use kubexm_spec::{Cluster, Family, PackageRole, Platform};

use crate::error::RequireError;
use crate::os::{Profile, Profiles, Root};
use crate::requirements::PackageNeed;

/// The packages of each operating system of `spec.bundle.os`, for each platform; none where `spec.system.osPackages` says so.
pub fn needs(cluster: &Cluster, profiles: &Profiles) -> Result<Vec<PackageNeed>, RequireError> {
    if cluster.system.os_packages == OsPackages::None {
        return Ok(Vec::new());
    }
    let roles = roles(cluster);
    let mut all = Vec::new();
    for name in &cluster.bundle.os {
        let profile = profiles
            .get(name)
            .map_err(|unknown| RequireError::UnknownOs { name: unknown.name, nearest: unknown.near })?;
        for platform in &cluster.bundle.platforms {
            if !profile.archs.contains(&platform.arch) {
                return Err(not_for(profile, *platform, profiles));
            }
            let no_runtime = |root: &&Root| root.role == PackageRole::Runtime && profile.names_of(root).is_empty();
            if roles.contains(&PackageRole::Runtime) && profiles.roots.iter().any(|root| no_runtime(&root)) {
                return Err(no_runtime_for(cluster, profile, profiles));
            }
            let roots = roots(cluster, profile, &profiles.roots, &roles);
            if !roots.is_empty() {
                all.push(PackageNeed { os: name.clone(), platform: *platform, family: profile.family, roots });
            }
        }
    }
    all.sort_by(|a, b| (&a.os, a.platform).cmp(&(&b.os, b.platform)));
    all.dedup_by(|a, b| a.os == b.os && a.platform == b.platform);
    Ok(all)
}

fn not_for(profile: &Profile, platform: Platform, profiles: &Profiles) -> RequireError {
    let there_is = |other: &&Profile| other.id == profile.id && other.archs.contains(&platform.arch);
    RequireError::NoOsForPlatform {
        os: profile.name.clone(),
        platform,
        archs: profile.archs.iter().map(|arch| arch.as_str().to_owned()).collect(),
        nearest: profiles.all.values().filter(there_is).map(|other| other.name.clone()).collect(),
    }
}

fn no_runtime_for(cluster: &Cluster, profile: &Profile, profiles: &Profiles) -> RequireError {
    let of_runtime = |other: &&Profile| {
        let mut roots = profiles.roots.iter().filter(|root| root.role == PackageRole::Runtime);
        roots.all(|root| !other.names_of(root).is_empty())
    };
    RequireError::NoRuntimeForOs {
        runtime: cluster.runtime.kind.to_string(),
        os: profile.name.clone(),
        known: profiles.all.values().filter(of_runtime).map(|other| other.name.clone()).collect(),
    }
}

/// Roles that some node of the cluster has.
fn roles(cluster: &Cluster) -> Vec<PackageRole> {
    let Some(kubernetes) = &cluster.kubernetes else { return Vec::new() };
    let balancer = match &cluster.load_balancer.mode {
        LoadBalancerMode::External { kind, .. } => Some(*kind),
        // static pods
        LoadBalancerMode::None | LoadBalancerMode::Internal { .. } => None,
    };
    let has = |role: PackageRole| match role {
        PackageRole::Node => true,
        PackageRole::Runtime => cluster.runtime.kind.is_packaged(),
        PackageRole::Ipvs => kubernetes.proxy_mode == ProxyMode::Ipvs,
        PackageRole::Nfs => cluster.storage.nfs.is_some(),
        // the only engine of OpenEBS that cluster.yaml knows keeps volumes in a folder
        PackageRole::Iscsi => false,
        PackageRole::Time => !cluster.system.ntp_servers.is_empty(),
        PackageRole::Keepalived => matches!(balancer, Some(ExternalKind::KubexmKh | ExternalKind::KubexmKn)),
        PackageRole::Haproxy => balancer == Some(ExternalKind::KubexmKh),
        PackageRole::Nginx => balancer == Some(ExternalKind::KubexmKn),
    };
    PackageRole::ALL.into_iter().filter(|role| has(*role)).collect()
}

/// In the order of the table, then the user's own. What a release has no package of is left out: its programs are there.
fn roots(cluster: &Cluster, profile: &Profile, table: &[Root], roles: &[PackageRole]) -> Vec<PackageRoot> {
    let ours = table.iter().filter(|root| roles.contains(&root.role)).map(|root| PackageRoot {
        name: root.name.clone(),
        role: root.role,
        commands: root.commands.clone(),
        packages: profile.names_of(root).to_vec(),
        replaces: root.replaces.get(&profile.family).cloned().unwrap_or_default(),
    });
    let said = match profile.family {
        Family::Deb => &cluster.system.debs,
        Family::Rpm => &cluster.system.rpms,
    };
    // What the table knows of a package holds of it whoever asks for it.
    let known = |name: &String| table.iter().find(|root| profile.names_of(root).contains(name));
    let own = said.iter().map(|name| PackageRoot {
        name: name.clone(),
        role: PackageRole::Node,
        commands: Vec::new(),
        packages: vec![name.clone()],
        replaces: known(name).and_then(|root| root.replaces.get(&profile.family)).cloned().unwrap_or_default(),
    });
    ours.filter(|root| !root.packages.is_empty()).chain(own).collect()
}

impl PackageNeed {
    /// Names of all packages that are asked for, in order, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for name in self.roots.iter().flat_map(|root| &root.packages) {
            if !all.contains(&name.as_str()) {
                all.push(name);
            }
        }
        all
    }

    /// The repositories' own addresses.
    pub fn addresses(&self) -> Vec<String> {
        let profile = Profiles::embedded().all.get(&self.os);
        let bases = profile.into_iter().flat_map(|profile| &profile.repositories);
        bases.map(|repository| repository.base(self.family, self.platform.arch)).collect()
    }
}
