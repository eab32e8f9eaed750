//! Writes, opens and verifies bundles: one `NAME.tar.zst` that `tar --zstd` can read, of independent frames that every core
//! can read. The format is described in `bundle-spec/SPEC.md`.
//!
//! ```text
//! write()  Manifest + Inputs ─► .NAME.partial ─► NAME.tar.zst
//! Bundle::open()  seek table, trailer, manifest.json, layout.json: structure holds
//! verify()  every byte is what the manifest and the format require
//! check_references()  everything that is named inside is there
//! ```
//!
//! Recoded members are named by the format and refused here.

#![warn(missing_docs)]

mod cursor;
mod damage;
mod documents;
mod encoding;
mod error;
mod feed;
mod frame;
mod frame_reader;
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod group_frame;
mod input;
mod join;
mod layout;
mod lock;
mod member_hasher;
mod member_reader;
pub mod members;
mod merge;
mod open;
mod partial;
mod piece_queue;
mod pipeline;
mod read;
mod references;
mod seek_table;
mod sidecar;
mod sign;
pub mod signature_slot;
mod source;
mod stream;
pub mod sums;
mod tail;
mod tar_header;
mod target;
mod trailer;
mod values;
mod verify;
mod volume_header;
mod volumes;
mod walk;
mod write;

pub use damage::{Damage, DamageReport, Verified};
pub use documents::{DOCUMENT_LIMIT, Documents, UnreadDocument, read_document};
pub use encoding::{Encoding, MAGIC_BYTES, encoding_for};
pub use error::ArchiveError;
pub use group::{GROUP_LIMIT, Group};
pub use input::{Input, Open};
pub use join::join;
pub use layout::{Layout, StoredMember};
pub use lock::read_lock;
pub use member_reader::{MemberReader, Unverified};
pub use members::StoredAt;
pub use merge::merge;
pub use partial::{make_mark, open_locked, partial_path};
pub use read::Bundle;
pub use references::{Incomplete, Missing, check_references};
pub use sidecar::{BUNDLE, check_target, foreign_sums, in_other_form, taken_by};
pub use sign::{Signed, Signing, detached_path_of, write_detached};
pub use signature_slot::{SIGNATURE_ROOM, Signature};
pub use source::ReadAt;
pub use stream::{Streamed, verify_stream};
pub use values::{TooManyValues, check_values};
pub use verify::{verify, verify_quick};
pub use write::{Contents, Delta, Options, Written, bundle_id_of, check_split, safe_split, write, write_contents};
