//! The catalogue: data about components, releases, images, zones and operating systems, and the pure functions over it.
//!
//! [`Catalogue::embedded`] is what this program was built with, [`Catalogue::overlaid`] adds a user's own versions,
//! [`require()`] says everything a cluster needs, [`Zone`] says where else to ask for it. No IO; nothing here knows a host.

mod addons;
pub mod catalogue;
mod catalogue_subset;
pub mod chart;
mod chart_network;
mod chart_release;
pub mod chart_storage;
pub mod check;
pub mod component;
mod embedded;
pub mod error;
pub mod feature;
mod feature_gates;
mod glibc_of_os;
pub mod image;
mod libc;
mod limits;
mod migrate;
mod needs;
mod notice;
pub mod os;
mod overlay;
mod own_images;
pub mod packaged_runtime;
mod packages;
pub mod release;
mod require;
mod require_features;
pub mod requirements;
mod unverified;
mod verified;
pub mod version;
mod versions;
pub mod zone;

pub use catalogue::{Catalogue, ImagePin};
pub use chart::releases;
pub use chart_release::ChartRelease;
pub use check::{check, unverified};
pub use component::{Archive, Build, Component, NodeRole, Payload, Pin};
pub use error::{CatalogueError, RequireError};
pub use feature::{FeatureSet, FeatureVersion};
pub use image::{Feature, ImageRule};
pub use libc::Libc;
pub use needs::in_no_cluster;
pub use notice::{Notice, NoticeKind, notices};
pub use os::{OsFamily, OsProfile};
pub use own_images::own_images;
pub use release::{CgroupV1, Release, Severity, Support};
pub use require::{PACKAGE_STAGE, require, require_of_bundle};
pub use requirements::{ChartSource, Requirement, Requirements, Source, Versions};
pub use unverified::{Checked, Doubt, DoubtKind, checked, doubts};
pub use verified::{Compared, Verified};
pub use version::Span;
pub use versions::references;
pub use zone::{FileCandidate, ImageCandidate, Zone};
