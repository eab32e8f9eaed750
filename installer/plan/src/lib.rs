//! Plans as data: what shall hold on which host, in which order, and how each step is rolled back.
//!
//! A plan leaves the executor no choice. Nothing here does IO; everything is serialisable, because ops travel
//! to the machine they run on. Each op kind is a file in `op`, with what others may ask of it ([`OpKind`]).

#![warn(missing_docs)]

pub mod cluster_facts;
mod cluster_id;
pub mod facts;
mod id;
pub mod kind;
mod leaving;
pub mod ledger;
pub mod lint;
pub mod mesh;
pub mod network;
pub mod observed_state;
pub mod op;
pub mod pipeline;
pub mod place;
mod plan;
mod render;
pub mod runtime;
pub mod schema;
mod slot;
pub mod state_folders;
pub mod step;
mod survey;
pub mod touch;
pub mod undo;
mod vouched;
pub mod wave;

pub use cluster_facts::ClusterFacts;
pub use cluster_id::{ClusterId, ClusterIdError};
pub use facts::Facts;
pub use id::StepId;
pub use kind::{AfterReset, Needs, OpKind, Scope, State};
pub use leaving::{Leaves, packages_that_go};
pub use lint::{CheckedPlan, Problem, Severity};
pub use observed_state::{ObservedState, ProbeAnswer, StateError};
pub use op::{Act, Op, Probe, Reset};
pub use pipeline::{Invariant, Pipeline};
pub use place::{Entry, Place};
pub use plan::{CONTROLLER, Plan, PlanHost, Texts};
pub use schema::SCHEMA;
pub use slot::{SlotName, SlotProvider};
pub use step::{OVER_NETWORK, Step, StepBuilder};
pub use survey::Survey;
pub use touch::{Thing, Touch};
pub use undo::Undo;
pub use vouched::Vouched;
pub use wave::Wave;
