//! resolvo's SAT solver, asked for what greed did not find.

use resolvo::{Problem, Requirement as Wanted, Solver, UnsolvableOrCancelled};

use super::asked::Asked;
use super::sat_model::{About, Model, Text};
use super::universe::Universe;
use super::{PackageId, Reason, explain};

/// What is to be added, or why there is nothing that would do.
pub(super) fn search(universe: &Universe<'_>, asked: &[Asked<'_>]) -> Result<Vec<PackageId>, Vec<Reason>> {
    let model = Model::new(universe);
    let mut wanted = Vec::new();
    for root in asked {
        let text = Text::of(root.words.clone(), About::Name(root.name.into()));
        wanted.push(model.one_of(&root.ways, &text).into());
    }
    for id in universe.installed() {
        let package = universe.package(id);
        let name = model.name_of(id);
        let text = Text::of(package.name.clone(), About::Name(package.name.clone()));
        let all = model.versions(name);
        wanted.push(Wanted::Single(model.set(name, all, &text)).into());
    }
    let mut solver = Solver::new(model);
    match solver.solve(Problem::new().requirements(wanted)) {
        Ok(found) => {
            let real = found.into_iter().filter_map(|id| solver.provider().package(id));
            let mut new: Vec<PackageId> = real.filter(|id| !universe.is_installed(*id)).collect();
            new.sort_unstable();
            Ok(new)
        }
        Err(UnsolvableOrCancelled::Unsolvable(conflict)) => {
            Err(explain::sentences(solver.provider(), &conflict.graph(&solver)))
        }
        Err(UnsolvableOrCancelled::Cancelled(_)) => {
            let names: Vec<&str> = asked.iter().map(|root| root.name).collect();
            let why = match universe.is_spent() {
                true => universe.too_many_comparisons(),
                false => format!(
                    "{} decisions gave neither a set of packages nor a reason why there is none, for {}; name the versions \
                     or other packages, or use another mirror",
                    universe.limits.decisions,
                    names.join(", ")
                )
                .into(),
            };
            Err(vec![Reason::TooHard { why }])
        }
    }
}
