//! Files that an operator names: those that are read, and those that are written with `-o`.
//!
//! Only a regular file is ever replaced, and without `--force` only one that is empty or an earlier output of the same
//! [`Kind`]. Devices, named pipes, sockets, folders and symbolic links are refused, with `--force` too: a rename would put a
//! file in their place. The new content is written beside the target, brought to the disk, and only then gets its name; on an
//! error the temporary file is removed and what was there stays.
//!
//! What is read has a limit in bytes, and a text is UTF-8. `-` is standard input or standard output. What others send is written
//! while the disk has room besides ([`DiskRoom`]).

mod disk_room;
mod error;
mod existing;
mod input;
mod kind;
mod material;
mod material_room;
mod writer;

pub use disk_room::DiskRoom;
pub use error::{NoOption, OutputError};
pub use existing::{check, check_folder, check_regular, is_stdout};
pub use input::{InputError, TEXT_LIMIT, read, read_text, text_of};
pub use kind::{Access, Kind, MAN_PAGE, head};
pub use material::{MaterialError, check_material, read_material};
pub use material_room::MaterialRoom;
pub use writer::{Writer, put, rename, write};
