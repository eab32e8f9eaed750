//! Probes every source of the repositories that packages would be locked from: whether it answers, is signed by the
//! vendor's key, is still valid, and has the indexes that it lists. No package is fetched.

use futures::{StreamExt, stream};
use kubexm_manifests::Zone;
use kubexm_manifests::requirements::PackageNeed;
use kubexm_spec::{Family, Platform};

use super::Distribution;
use crate::BuildError;
use crate::origins::Origins;
use crate::origins::packages::{Options, PackagesError, deb, rpm};
use crate::probe::{Hole, Place, State};

/// What was found out about one repository.
#[derive(Debug)]
pub struct ProbedRepository {
    /// Of which release: `debian-12`.
    pub os: String,
    /// For which machines.
    pub platform: Platform,
    /// What people call it: `bookworm-security`, `baseos`.
    pub repository: String,
    /// Every place, in the order in which they are asked.
    pub places: Vec<Place>,
}

/// The repositories of all releases.
#[derive(Debug, Default)]
pub struct Repositories {
    /// In the order of the releases, and of each profile.
    pub probed: Vec<ProbedRepository>,
    /// What a medium does not have, a sentence each.
    pub left_out: Vec<String>,
}

impl ProbedRepository {
    /// Whether any source has it.
    pub fn state(&self) -> State {
        self.places.iter().map(Place::state).min().unwrap_or(State::Missing)
    }

    /// For people: `bookworm-security of debian-12 linux/amd64`.
    pub fn name(&self) -> String {
        format!("{} of {} {}", self.repository, self.os, self.platform)
    }
}

/// One of a release on its way.
enum Asked {
    Suite(deb::Suite),
    Repository(rpm::Repository),
}

/// Asks for every repository of every need, `jobs` at once.
///
/// # Errors
/// An unknown release, and a key of a profile that cannot be read.
pub async fn probe_repositories(
    needs: &[PackageNeed],
    zone: &Zone,
    origins: &Origins,
    jobs: usize,
) -> Result<Repositories, BuildError> {
    let (mut asked, mut all) = (Vec::new(), Repositories::default());
    for need in needs {
        let distribution = Distribution::of_need(need, zone)?;
        let found = match distribution.profile.family {
            Family::Deb => distribution
                .suites()
                .map(|(suites, left_out)| (suites.into_iter().map(Asked::Suite).collect::<Vec<_>>(), left_out)),
            Family::Rpm => distribution
                .repositories()
                .map(|(found, left_out)| (found.into_iter().map(Asked::Repository).collect(), left_out)),
        };
        match found {
            Ok((found, left_out)) => {
                all.left_out.extend(left_out);
                asked.extend(found.into_iter().map(|one| (need, one)));
            }
            // A medium that is not mounted is a hole like any other.
            Err(error @ PackagesError::EmptyMedium { .. }) => {
                let (repository, address) = ("every repository".to_owned(), format!("zone {}", zone.name));
                let places = vec![Place { address, answer: Err(hole(&error)) }];
                all.probed.push(ProbedRepository { os: need.os.clone(), platform: need.platform, repository, places });
            }
            Err(source) => {
                let of = format!("{} {}", need.os, need.platform);
                return Err(BuildError::Packages { of, source: Box::new(source) });
            }
        }
    }
    let asking = asked.into_iter().map(|(need, one)| one.ask(need, origins));
    let probed: Vec<_> = stream::iter(asking).buffered(jobs.max(1)).collect().await;
    all.probed.extend(probed);
    Ok(all)
}

impl Asked {
    async fn ask(self, need: &PackageNeed, origins: &Origins) -> ProbedRepository {
        let (http, store, options, arch) =
            (&origins.http, &origins.store, &Options::at(origins.now()), need.platform.arch);
        let (repository, reported) = match self {
            Self::Suite(suite) => (suite.suite.clone(), deb::look(&suite, arch, http, store, options).await),
            Self::Repository(one) => (one.name.clone(), rpm::look(&one, arch, http, store, options).await),
        };
        let place = |(address, answer): (String, Result<(), PackagesError>)| Place {
            address: kubexm_transport::http::shown(&address),
            answer: answer.map(|()| None).map_err(|error| hole(&error)),
        };
        let places = reported.into_iter().map(place).collect();
        ProbedRepository { os: need.os.clone(), platform: need.platform, repository, places }
    }
}

fn hole(error: &PackagesError) -> Hole {
    let (code, may_pass) = (error.exit_code(), error.may_pass());
    Hole { reason: kubexm_spec::error_chain(error), code, may_pass, cause: error.cause() }
}
