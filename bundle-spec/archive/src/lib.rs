//! Writes, opens and verifies bundles: one `NAME.tar.zst` that `tar --zstd` can read, of independent frames that every core
//! can read. The format is described in `bundle-spec/SPEC.md`.
//!
//! ```text
//! write()  Manifest + Inputs ─► .NAME.partial ─► NAME.tar.zst
//! Bundle::open()  seek table, trailer, manifest.json, layout.json: structure holds
//! verify()  every byte is what the manifest and the format say
//! check_references()  everything that is named inside is there
//! ```
//!
//! Volumes, deltas, recoded members and the checking of signatures are named by the format and refused here.

mod damage;
mod encoding;
mod error;
mod frame;
mod layout;
mod member_reader;
pub mod members;
mod open;
mod partial;
mod pipeline;
mod read;
mod references;
mod seek_table;
mod signature_room;
mod tail;
mod tar_header;
mod trailer;
mod verify;
mod walk;
mod write;

pub use damage::{Damage, DamageReport, Verified};
pub use encoding::{Encoding, MAGIC_BYTES, encoding_for};
pub use error::ArchiveError;
pub use layout::{Layout, StoredMember};
pub use member_reader::MemberReader;
pub use members::StoredAt;
pub use read::Bundle;
pub use references::{Incomplete, Missing, check_references};
pub use signature_room::{SIGNATURE_ROOM, Signature, SignatureState};
pub use verify::verify;
pub use write::{Input, Open, Options, Written, write};
