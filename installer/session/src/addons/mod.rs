//! Add-ons: what is installed, and charts rendered before the first change of a run.

mod ahead;
mod classes;
mod helm;
pub(crate) mod installed;
pub(crate) mod kinds;
pub(crate) mod planned;
mod problems;
pub(crate) mod rendered;

pub(crate) use ahead::Ahead;
pub use installed::AddonsView;
pub(crate) use rendered::check;
