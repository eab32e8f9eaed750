//! What the recipe of a runtime returns.

use kubexm_plan::op::{Dir, StateDir};
use kubexm_plan::step::{NoUndo, StepBuilder};
use kubexm_plan::{Step, Undo, state_folders};
use kubexm_spec::Program;

use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;
use crate::modules::programs;
use crate::{network, paths};

/// The steps of a runtime on a node, in their order. An upgrade points the runtime at the registry long before it
/// replaces its programs.
#[derive(Debug)]
pub struct RuntimeSteps {
    /// Installs its programs.
    pub programs: Step,
    /// Points it at the cluster's registry; it reads these files with each pull.
    pub mirrors: Step,
    /// Configures and starts it.
    pub run: Step,
    /// Has it read the files of registries again, where it does not do that with each pull. [`Self::run`] does it, too.
    pub reload: Option<Step>,
}

impl IntoIterator for RuntimeSteps {
    type Item = Step;
    type IntoIter = std::array::IntoIter<Step, 3>;

    fn into_iter(self) -> Self::IntoIter {
        [self.programs, self.mirrors, self.run].into_iter()
    }
}

/// The end of the step that installs a runtime's programs: those of the pod network, which each runtime starts.
pub(super) fn with_cni(
    step: StepBuilder<NoUndo>,
    cx: &PlanContext<'_>,
    node: &PlannedHost<'_>,
) -> Result<Step, RecipeError> {
    Ok(step
        .ensure_all(state_folders::of_cni(&network::all_of(cx.cluster)).into_iter().map(StateDir::at))
        .ensure(Dir { path: paths::CNI_BIN.to_owned(), mode: 0o755 })
        .ensure(programs::install(cx, node, Program::CniPlugins, paths::CNI_BIN)?)
        .ensure_all(network::plugin_link(cx.cluster))
        .timeout_s(300)
        .undo(Undo::RestoreBefore)
        .build())
}
