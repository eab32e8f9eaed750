//! Charts of the bundle: how they were rendered when it was built, and with which values they are installed.

mod carried;
mod site;
mod values;

pub use carried::{CarriedCharts, NO_CHARTS};
pub use site::site;
pub use values::{addons, check, is_needed_on, network, network_images, values};
