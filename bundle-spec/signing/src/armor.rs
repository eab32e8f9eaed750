//! PEM (RFC 7468): the block that is wanted among those of a file.

use pem::Pem;
use zeroize::Zeroizing;

use crate::SigningError;

/// A block: its label, and the bytes in it.
pub(crate) struct Block {
    pub(crate) label: String,
    pub(crate) content: Zeroizing<Vec<u8>>,
    /// Has headers (RFC 1421), as OpenSSL's oldest encrypted form does.
    pub(crate) headers: bool,
}

impl Block {
    fn of(pem: Pem) -> Self {
        let headers = pem.headers().iter().next().is_some();
        Self { label: pem.tag().to_owned(), headers, content: Zeroizing::new(pem.into_contents()) }
    }
}

/// The first block with a label of `labels`. `openssl ecparam -genkey` writes the curve's name as a block before the key's:
/// that one is passed over. An error names the first label that is there instead.
pub(crate) fn find(name: &str, text: &[u8], wanted: &'static str, labels: &[&str]) -> Result<Block, SigningError> {
    let none = |problem: String| SigningError::NoKey { name: name.to_owned(), wanted, problem };
    let blocks = pem::parse_many(text).map_err(|_| none("its PEM is not well formed".to_owned()))?;
    let mut first = None;
    for pem in blocks {
        let block = Block::of(pem);
        if labels.contains(&block.label.as_str()) {
            return Ok(block);
        }
        if block.label != "EC PARAMETERS" {
            first.get_or_insert(block.label);
        }
    }
    Err(none(first.map_or_else(|| no_block(text), |label| instead(&label, wanted))))
}

fn no_block(text: &[u8]) -> String {
    let marked = text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff");
    match marked.then(|| kubexm_spec::not_utf8(text)).flatten() {
        Some(found) => format!("it is not UTF-8{found}; save it as UTF-8"),
        None => "it has no PEM block (-----BEGIN …-----)".to_owned(),
    }
}

/// What to do about a block of another kind.
fn instead(label: &str, wanted: &str) -> String {
    let shown: String = label.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(60).collect();
    match (label, wanted) {
        ("CERTIFICATE", "public key") => {
            "it holds a certificate; take its key with `openssl x509 -pubkey -noout -in CERTIFICATE`".to_owned()
        }
        (label, "public key") if label.ends_with("PRIVATE KEY") => {
            "it holds a private key; give the public one, NAME.pub (`openssl pkey -pubout -in KEY` writes it)"
                .to_owned()
        }
        ("PUBLIC KEY", _) => "it holds a public key; give the private one, NAME.key".to_owned(),
        _ => format!("it holds a {shown}"),
    }
}
