//! Reading YAML written by people: strict, every problem at once, each with line and column.
//!
//! Text becomes a tree of [`Node`]s that know where they stand ([`parse`]); a reader walks the tree with [`At`], asks for what
//! it expects and leaves what it did not find in a [`Sink`]. Plain scalars stay text, so a version `1.30` is not the number 1.3.

mod problem;
mod reader;
mod schema;
mod shape;
mod sink;
mod tree;

pub use problem::{Problem, ProblemKind, Problems, near, nearest};
pub use reader::{At, Keys, Known, Mapping};
pub use schema::schema;
pub use shape::{Field, Object, Shape};
pub use sink::Sink;
pub use tree::{Data, Key, Node, parse};
