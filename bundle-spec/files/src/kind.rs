//! What is written, and how an earlier output of the same kind is recognised.

use std::io::Read;

/// The most bytes of a file that [`Kind::recognise`] gets to read; most kinds need its start only.
pub const LIMIT: u64 = 64 << 20;

/// A kind of output.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// For messages: `a lock`, `a bundle`.
    pub name: &'static str,
    /// Whether a file is of this kind: an earlier output, also one of another version, or a damaged one. `None`: an existing file is always the operator's, such as a
    /// cluster.yaml that was edited, or a key.
    pub recognise: Option<fn(&mut dyn Read) -> bool>,
    /// Who may read it.
    pub access: Access,
}

/// A man page of a program of ours.
pub const MAN_PAGE: Kind = Kind { name: "a man page of kubexm", recognise: Some(is_man_page), access: Access::Umask };

fn is_man_page(file: &mut dyn Read) -> bool {
    String::from_utf8_lossy(&head(file, 1024)).contains("\n.TH kubexm-")
}

/// The permissions of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// 0666 less the umask; a file that is replaced keeps its mode.
    Umask,
    /// 0600, whatever the replaced file had.
    Private,
}

/// The first bytes, at most `len`; none of what cannot be read.
pub fn head(file: &mut dyn Read, len: u64) -> Vec<u8> {
    let mut head = Vec::new();
    match file.take(len).read_to_end(&mut head) {
        Ok(_) => head,
        Err(_) => Vec::new(),
    }
}
