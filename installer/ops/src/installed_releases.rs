//! Which releases of helm the cluster has, whoever made them, as far as labels say. Whoever may make Secrets in a namespace can have any number
//! of them look like releases, and each be as large as one may be: they are listed in pages, of which nothing but labels is kept, and a
//! release is read by itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kubexm_charts::stored::Revision;
use kubexm_spec::counted;
use serde::Deserialize;

use crate::kube::pages;
use crate::{Machine, OpError, kube};

/// Secrets of one page: as JSON each has some 4 MiB at most, and an answer 64.
const PAGE: usize = 15;
/// How long they are listed.
const LISTING: Duration = Duration::from_secs(40);
/// Releases without revisions that others have taken the place of: first those with kubexm's label, so that those of others cannot keep
/// them from being seen.
const SELECTORS: [&str; 2] = [
    "owner%3Dhelm%2Cstatus%21%3Dsuperseded%2Ckubexm.io%2Fchart",
    "owner%3Dhelm%2Cstatus%21%3Dsuperseded%2C%21kubexm.io%2Fchart",
];

/// The most releases that are listed, of kubexm's label and of others, together fewer than [`kubexm_plan::addons::MOST`]; and the most with
/// kubexm's label of one namespace: whoever may make Secrets there can give it to them, and those of other namespaces are listed all the same.
const MOST_OF_OURS: usize = 2_000;
const MOST_OF_OTHERS: usize = 2_000;
const MOST_OF_ONE_NAMESPACE: usize = 200;
// And records of add-ons.
const _: () = assert!(MOST_OF_OTHERS + MOST_OF_OURS + 500 <= kubexm_plan::addons::MOST);

/// What there is, by namespace and name.
pub(crate) struct Listed {
    pub releases: Vec<Last>,
    /// Whether these are all.
    pub whole: bool,
}

/// The last revision of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Last {
    pub namespace: String,
    pub name: String,
    pub number: u32,
    pub status: String,
    /// Whether it has kubexm's label.
    pub ours: bool,
    /// Name of its Secret.
    pub secret: String,
}

impl Last {
    /// The revision; none if it is not there any more.
    pub fn revision(&self, machine: &Machine) -> Result<Option<Revision>, OpError> {
        let path = format!("/api/v1/namespaces/{}/secrets/{}", self.namespace, self.secret);
        Ok(kube::raw(machine, &path)?.map(Revision::of))
    }
}

#[derive(Deserialize)]
struct Secret {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    namespace: String,
    labels: Labels,
}

#[derive(Deserialize)]
struct Labels {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    status: String,
    #[serde(default, rename = "kubexm.io/chart")]
    chart: String,
}

/// Lists them, as long as it does not take too long.
///
/// # Errors
/// The API server does not answer.
pub(crate) fn list(machine: &Machine) -> Result<Listed, OpError> {
    let until = Instant::now() + LISTING;
    let mut last: BTreeMap<(String, String), Last> = BTreeMap::new();
    let mut whole = true;
    for selector in SELECTORS {
        let path = format!("/api/v1/secrets?labelSelector={selector}");
        whole &= pages::read(machine, &path, PAGE, |page: Vec<Secret>| {
            for found in page.into_iter().filter_map(of_secret) {
                let key = (found.namespace.clone(), found.name.clone());
                if last.get(&key).is_none_or(|known| known.number <= found.number) {
                    last.insert(key, found);
                }
            }
            Instant::now() < until
        })?;
    }
    Ok(Listed { releases: last.into_values().collect(), whole })
}

/// None of what is no revision.
fn of_secret(Secret { metadata: Metadata { name: secret, namespace, labels } }: Secret) -> Option<Last> {
    let Labels { name, version, status, chart } = labels;
    let number = version.parse().ok().filter(|number| *number > 0)?;
    Some(Last { namespace, name, number, status, ours: !chart.is_empty(), secret })
}

/// All of them.
///
/// # Errors
/// There are more than can be listed.
pub(crate) fn every(machine: &Machine) -> Result<Vec<Last>, OpError> {
    let Listed { releases, whole } = list(machine)?;
    if whole {
        return Ok(releases);
    }
    let mut of_namespace: BTreeMap<&str, usize> = BTreeMap::new();
    releases.iter().for_each(|one| *of_namespace.entry(&one.namespace).or_default() += 1);
    let most = of_namespace.into_iter().max_by_key(|(_, count)| *count);
    let most = most.map(|(namespace, count)| format!("; {count} of them in namespace {namespace}")).unwrap_or_default();
    Err(OpError::other(format!(
        "the cluster has more releases of helm than can be listed within {} s: {} Secrets so far with the label owner=helm{most}. Remove those \
         that helm has not made",
        LISTING.as_secs(),
        releases.len()
    )))
}

/// How many releases were listed.
#[derive(Default)]
pub(crate) struct Count<'l> {
    ours: usize,
    others: usize,
    of_namespace: BTreeMap<&'l str, usize>,
    /// Those that were not.
    more: usize,
}

impl<'l> Count<'l> {
    /// Whether this one is listed, too.
    pub fn has_room(&mut self, one: &'l Last) -> bool {
        let room = if one.ours {
            let here = self.of_namespace.entry(&one.namespace).or_default();
            *here += 1;
            *here <= MOST_OF_ONE_NAMESPACE && take(&mut self.ours, MOST_OF_OURS)
        } else {
            take(&mut self.others, MOST_OF_OTHERS)
        };
        self.more += usize::from(!room);
        room
    }

    /// What is said of those that are not listed.
    pub fn not_listed(&self, whole: bool) -> Option<String> {
        let more = (self.more > 0).then(|| counted(self.more as u64, "more release"));
        let rest = (!whole).then(|| "those that could not be listed in time".to_owned());
        let said = more.into_iter().chain(rest).collect::<Vec<_>>().join(", and ");
        (!said.is_empty()).then(|| format!("and {said}: Secrets with the label owner=helm, which others have made"))
    }
}

fn take(count: &mut usize, most: usize) -> bool {
    let has_room = *count < most;
    *count += usize::from(has_room);
    has_room
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(namespace: &str, number: usize, ours: bool) -> Last {
        Last { namespace: namespace.to_owned(), name: format!("x{number}"), ours, ..Last::default() }
    }

    #[test]
    fn however_many_secrets_look_like_releases_the_answer_is_accepted_and_those_of_other_namespaces_are_in_it() {
        let mut all: Vec<Last> = (0..3_000).map(|number| of("a", number, false)).collect();
        all.extend((0..3_000).map(|number| of("b", number, true)));
        all.push(of("web", 0, true));
        let mut count = Count::default();
        let listed: Vec<&Last> = all.iter().filter(|one| count.has_room(one)).collect();
        assert_eq!(listed.len(), MOST_OF_OTHERS + MOST_OF_ONE_NAMESPACE + 1);
        assert_eq!(listed.last().map(|one| one.namespace.as_str()), Some("web"));
        assert!(count.not_listed(true).is_some_and(|text| text.starts_with("and 3800 more releases: ")));
        assert_eq!(Count::default().not_listed(true), None);
        assert!(Count::default().not_listed(false).is_some_and(|text| text.contains("in time")));
    }
}
