//! Plans as data: the desired state of each host, the order of the steps, and how each step is rolled back.
//!
//! A plan leaves the executor no choice. Nothing here does IO; everything is serialisable, because ops are sent to the
//! machine they run on. Each op kind is a file in `op`, with the properties that other crates need ([`OpKind`]).

#![warn(missing_docs)]

pub mod addons;
pub mod backup;
pub mod balancer;
mod bundle_record;
pub mod cluster_facts;
mod cluster_id;
pub mod depot;
pub mod drift;
pub mod etcd;
pub mod etcd_check;
pub mod facts;
mod id;
pub mod kind;
pub mod kubeadm_certificates;
pub mod ledger;
pub mod lint;
pub mod mesh;
pub mod network;
pub mod observed_state;
pub mod op;
pub mod path_state;
pub mod pipeline;
mod plan;
pub mod pushed;
mod removal;
mod render;
pub mod request;
pub mod resource;
pub mod runtime;
pub mod schema;
mod sealed;
mod slot;
pub mod state_folders;
pub mod step;
mod survey;
pub mod timers;
pub mod undo;
pub mod wave;

pub use bundle_record::BundleRecord;
pub use cluster_facts::ClusterFacts;
pub use cluster_id::{ClusterId, ClusterIdError};
pub use drift::{Difference, KubeadmFiles, StepDrift};
pub use facts::Facts;
pub use id::StepId;
pub use kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
pub use lint::{CheckedPlan, Problem, Severity};
pub use observed_state::{ObservedState, ProbeAnswer, StateError};
pub use op::{Act, Op, Probe, Reset};
pub use path_state::{PathEntry, PathState};
pub use pipeline::{Invariant, Pipeline};
pub use plan::{CONTROLLER, OPERATOR_KUBECONFIG, Plan, PlanHost, Texts};
pub use removal::{Removal, packages_to_remove};
pub use request::{CertificateRequest, Requested};
pub use resource::{Resource, ResourceChange};
pub use schema::SCHEMA;
pub use sealed::{REGISTRY_CAS, Recipient, SEALED_AUTHORITIES};
pub use slot::{Authority, CertificateUse, KeyForm, LoginForm, SlotName, SlotProvider};
pub use step::{OVER_NETWORK, Step, StepBuilder};
pub use survey::Survey;
pub use undo::Undo;
pub use wave::Wave;
