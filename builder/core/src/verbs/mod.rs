//! What the verbs of a program decide and answer, a file for each: typed answers that are JSON as they are, without a word of
//! rendering. A verb reads and writes the files that it is given, and says by its answer or its error how a program ends.

pub mod build;
pub mod cache;
pub mod cat;
pub mod catalogue;
pub mod chart_images;
pub mod config;
pub mod copy;
pub mod diff;
pub mod documents;
pub mod dry_run;
pub mod explain;
pub mod extract;
pub mod hand_over;
pub mod import;
pub mod inspect;
pub mod inspect_page;
pub mod keygen;
pub mod kinds;
pub mod list;
pub mod lock;
pub mod merge;
pub mod outputs;
pub mod packages;
pub mod refresh;
pub mod registry;
pub mod sign;
pub mod signatures;
pub mod signing_key;
pub mod update;
pub mod verify;
pub mod zone_check;
pub mod zone_show;
