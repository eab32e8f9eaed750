//! What packages of a node would lack once others have left it.

use std::collections::{BTreeMap, BTreeSet};

use super::limits::Limits;
use super::selection::Selection;
use super::universe::Universe;
use super::{Baseline, NodePlan, PackageId, Pool};

/// So many sentences say it: a node may say anything of itself, and they are one in the end.
const LACKING: usize = 100;

/// What some installed packages need and do not find any more once others have left for those that come, in sentences: nothing is
/// ever left behind broken. `rest` is the baseline without what leaves. Where it takes too long to say, that is what is said.
pub fn left_lacking(pool: &Pool, baseline: &Baseline, rest: &Baseline, coming: &NodePlan) -> Vec<String> {
    left_lacking_within(Limits::default(), pool, (baseline, rest), coming)
}

fn left_lacking_within(
    limits: Limits,
    pool: &Pool,
    (baseline, rest): (&Baseline, &Baseline),
    coming: &NodePlan,
) -> Vec<String> {
    let coming: Vec<PackageId> = coming.install.iter().chain(&coming.upgrade).map(|one| one.package).collect();
    let (then, now) = (Universe::within(limits, pool, baseline), Universe::within(limits, pool, rest));
    let both = lacks(&then, &[]).and_then(|before| Ok((before, lacks(&now, &coming)?)));
    match both {
        Ok((before, after)) => {
            let new = after.into_iter().filter(|(need, _)| !before.contains_key(need));
            listed(&now, &new.map(|((_, _, _, at), id)| (id, at)).collect::<Vec<_>>())
        }
        Err(why) => vec![why],
    }
}

/// A package by its name, architecture and version, and the place of what it needs.
type Need<'a> = (&'a str, &'a str, &'a str, usize);

/// What installed packages need and do not find beside those that come. Not in words, which a node could make long.
fn lacks<'a>(universe: &Universe<'a>, coming: &[PackageId]) -> Result<BTreeMap<Need<'a>, PackageId>, String> {
    let mut there = Selection::new(universe);
    coming.iter().for_each(|id| there.add(*id));
    let mut found = BTreeMap::new();
    for id in universe.installed().filter(|id| there.contains(*id)) {
        let package = universe.package(id);
        for at in there.lacks(id) {
            universe.keep();
            found.insert((&*package.name, &*package.arch, &*package.version, at), id);
        }
        if universe.is_spent() {
            return Err(universe.too_many_comparisons().into_string());
        }
    }
    Ok(found)
}

/// The first of them, and how many more there are.
fn listed(universe: &Universe<'_>, all: &[(PackageId, usize)]) -> Vec<String> {
    let words = |(id, at): &(PackageId, usize)| {
        let relations = universe.relations(*id)?;
        Some(format!("{} needs {}", universe.shown(*id), universe.words(relations.requires.get(*at)?)))
    };
    let first: BTreeSet<String> = all.iter().take(LACKING).filter_map(words).collect();
    let more = all.len().saturating_sub(LACKING);
    first.into_iter().chain((more > 0).then(|| format!("{more} more need something"))).collect()
}

#[cfg(test)]
mod tests {
    use kubexm_spec::Family;

    use super::super::{Repo, node_plan};
    use super::*;
    use crate::rpm::installed;

    #[test]
    fn what_a_node_has_a_thousand_times_does_not_keep_a_plan_computing() {
        let one = |at: usize, count: usize| {
            let lines = |kind: &str| format!("{kind}\tx\t0\t\n").repeat(count);
            format!("N\tp{at}\t0\t1\t1\tx86_64\n{}{}", lines("P"), lines("R"))
        };
        let list: String = (0..10).map(|at| one(at, 1_000)).collect();
        let baseline = Baseline { packages: installed::read(&list).unwrap(), ..Baseline::default() };
        let repo = Repo { id: "baseos".to_owned(), base: String::new(), priority: 0 };
        let pool = Pool::new(Family::Rpm, "x86_64", vec![repo], Vec::new());
        let plan = node_plan(&pool, &[], &baseline, &BTreeMap::new());
        let few = Limits { comparisons: 1_000_000, ..Limits::default() };
        let sentences = left_lacking_within(few, &pool, (&baseline, &baseline), &plan);
        assert!(sentences.len() == 1 && sentences[0].contains("compared 1000000 times"), "{sentences:?}");
        let small = Baseline { packages: installed::read(&one(0, 10)).unwrap(), ..Baseline::default() };
        assert!(left_lacking_within(few, &pool, (&small, &small), &plan).is_empty());
    }

    #[test]
    fn what_a_node_lacks_already_is_not_kept_in_words() {
        let long = "9".repeat(250);
        let list = format!("N\t{}\t0\t{long}\t1\tx86_64\n", "n".repeat(250))
            + &(0..20_000).map(|at| format!("R\tq{at}\t0\t\n")).collect::<String>();
        let baseline = Baseline { packages: installed::read(&list).unwrap(), ..Baseline::default() };
        let pool = Pool::new(Family::Rpm, "x86_64", Vec::new(), Vec::new());
        let universe = Universe::new(&pool, &baseline);
        let found = lacks(&universe, &[]).unwrap();
        assert_eq!(found.len(), 20_000);
        assert!(
            found
                .keys()
                .all(|(name, _, version, _)| std::ptr::eq(*name, &*baseline.packages[0].name) && version.len() > 250)
        );
        assert!(universe.spent() > 20_000 * 100, "each is counted as something that is kept");
        let plan = node_plan(&pool, &[], &baseline, &BTreeMap::new());
        assert!(left_lacking(&pool, &baseline, &baseline, &plan).is_empty());
    }

    #[test]
    fn what_would_be_left_lacking_is_said_in_a_hundred_sentences() {
        let needs: String = (0..150).map(|at| format!("N\tp{at}\t0\t1\t1\tnoarch\nR\told\t0\t\n")).collect();
        let with = |list: &str| Baseline { packages: installed::read(list).unwrap(), ..Baseline::default() };
        let (before, rest) = (with(&format!("N\told\t0\t1\t1\tnoarch\n{needs}")), with(&needs));
        let pool = Pool::new(Family::Rpm, "x86_64", Vec::new(), Vec::new());
        let plan = node_plan(&pool, &[], &before, &BTreeMap::new());
        let sentences = left_lacking(&pool, &before, &rest, &plan);
        assert_eq!((sentences.len(), sentences[0].as_str()), (101, "p0 1-1 needs old"));
        assert_eq!(sentences[100], "50 more need something");
    }
}
