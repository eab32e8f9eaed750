//! Charts and their renderings, as far as both programs know them: YAML streams of others, the images that objects name, and
//! releases as helm keeps them in a cluster. No IO.
//!
//! The builder renders charts to learn their images; the installer renders them once more with the values of the site, and
//! refuses what would need an image that the bundle does not have.

mod alike;
pub mod documents;
pub mod extract;
pub mod judge;
pub mod objects;
pub mod stored;
pub mod suspect;

/// The most memory of helm where a chart of others is rendered, in bytes: it has a gigabyte of addresses for itself.
pub const HELM_MEMORY: u64 = 4 << 30;
