//! Why a package is in a closure.

use super::universe::Universe;
use super::{Baseline, Because, Chosen, Closure, PackageId, Pool};

/// Why a package is in a closure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why<'c> {
    /// From what was asked for to the package itself, each needed by the one before.
    pub chain: Vec<&'c Chosen>,
    /// All packages of the closure that need it, and in which words, by name: `(socat, libwrap0 (>= 7.6-4~))`.
    pub needed_by: Vec<(PackageId, Box<str>)>,
}

/// Why the package of that name is in a closure that was solved over nothing installed; none where it is not in it.
pub fn why<'c>(pool: &Pool, closure: &'c Closure, name: &str) -> Option<Why<'c>> {
    let named = |name: &str| closure.packages.iter().find(|chosen| &*pool.package(chosen.package).name == name);
    let found = named(name)?;
    let mut chain = vec![found];
    while let Some(Because::Needed { by, .. }) = chain.last().map(|last| &last.because)
        && let Some(before) = named(by)
        && !chain.contains(&before)
    {
        chain.push(before);
    }
    chain.reverse();
    let nothing = Baseline::empty();
    let universe = Universe::new(pool, &nothing);
    let mut needed_by = Vec::new();
    for other in closure.packages.iter().filter(|other| other.package != found.package) {
        let Some(relations) = universe.relations(other.package) else { continue };
        let is_for =
            |need: &&crate::model::Requirement| universe.single(need).is_some_and(|ways| ways.contains(&found.package));
        if let Some(need) = relations.requires.iter().find(is_for) {
            needed_by.push((other.package, universe.words(need)));
        }
    }
    Some(Why { chain, needed_by })
}
