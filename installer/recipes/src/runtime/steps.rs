//! What the recipe of a runtime returns.

use kubexm_plan::Step;

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
}

impl IntoIterator for RuntimeSteps {
    type Item = Step;
    type IntoIter = std::array::IntoIter<Step, 3>;

    fn into_iter(self) -> Self::IntoIter {
        [self.programs, self.mirrors, self.run].into_iter()
    }
}
