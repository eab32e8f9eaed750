//! Add-ons: what is installed, what a bundle would change, and charts rendered before the first change of a run.

mod diff;
mod helm;
mod installed;
mod kinds;
mod rendered;

pub use diff::{AddonDiff, AddonsDiff, Change as AddonChange, Changed, ObjectDiff};
pub use installed::AddonsView;
pub(crate) use rendered::check;
