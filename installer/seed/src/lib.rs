//! Puts the images, charts and files of a bundle into a registry that the user has, without any cluster
//! ([decision 0042](../../../../docs/decisions/0042-seeding-is-a-library-of-its-own.md)).
//!
//! ```text
//! Contents::read(bundle) ─plan(naming, choice)→ SeedPlan            pure: names, what an index becomes, what collides
//! SeedPlan ─Seeding::look(registry)→ Work                           what is there, which tags are taken; nothing is changed
//! Work ─Seeding::push→ Seeded ─audit→ SeedReport                    blobs, manifests, referrers, tags last
//! ```
//!
//! Nothing in it is process-wide: events go to a function, credentials are passed, and a token ends it after the chunks that
//! are on their way. The caller installs rustls' provider and brings the async runtime.

mod artifact;
mod audit;
mod blob_source;
mod chart;
mod connection;
mod contents;
mod document;
mod error;
mod form;
mod kept;
mod lock;
mod look;
mod manifests;
mod map;
mod naming;
mod open;
mod plan;
mod platforms;
mod push;
mod record;
mod reduced;
mod report;
mod rest;
mod room;
mod seeding;
mod spool;
mod target;
mod totals;

pub use blob_source::{BlobFolder, BlobSource};
pub use connection::Connection;
pub use contents::{Contents, Kinds, StoredImage};
pub use error::SeedError;
pub use form::Form;
pub use kubexm_transport::{Credentials, Watch};
pub use map::{MapForm, map_text};
pub use naming::Naming;
pub use open::{namespace_override, open};
pub use plan::{Choice, SeedPlan, plan};
pub use record::{Record, RecordFolder};
pub use report::{Mapped, Refused, SeedReport, State};
pub use seeding::{Report, SeedOptions, seed, seed_images};
pub use spool::Spool;
pub use target::{ParseTargetError, Target};
pub use totals::Totals;
