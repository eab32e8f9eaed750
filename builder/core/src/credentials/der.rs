//! Private keys and key stores in DER or BER, by their form: the tags at their start, which nothing else has in this order.

/// Tags (X.690, 8.1.2) of what a private key is made of.
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

/// PKCS#7 (1.2.840.113549.1.7): what a PFX holds.
const PKCS7: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07];
/// Encryption by a password: PKCS#5 (1.2.840.113549.1.5) and PKCS#12 (1.2.840.113549.1.12.1).
const BY_PASSWORD: [&[u8]; 2] =
    [&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05], &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01]];
/// Integers of an RSAPrivateKey (RFC 8017, A.1.2) and of a DSA key at least.
const NUMBERS: usize = 6;

/// What a file is that begins with these bytes and has `size` of them.
pub(super) fn find(bytes: &[u8], size: u64) -> Option<&'static str> {
    let whole = Element::read(bytes)?;
    if whole.tag != SEQUENCE || whole.size.is_some_and(|value| whole.header as u64 + value as u64 != size) {
        return None;
    }
    let first = Element::read(whole.value)?;
    let second = Element::read(first.after?)?;
    match (first.tag, first.value, second.tag) {
        // PFX (RFC 7292, 4): version 3 and a ContentInfo.
        (INTEGER, [3], SEQUENCE) => {
            second.object().is_some_and(|oid| oid.starts_with(PKCS7)).then_some("a key store (PKCS#12)")
        }
        // PrivateKeyInfo (RFC 5208, 5; RFC 5958, 2): version, algorithm, key.
        (INTEGER, [0 | 1], SEQUENCE) => {
            let key = Element::read(second.after?)?;
            (second.object().is_some() && key.tag == OCTET_STRING).then_some(KEY)
        }
        // ECPrivateKey (RFC 5915, 3).
        (INTEGER, [1], OCTET_STRING) => Some(KEY),
        (INTEGER, [0 | 1], INTEGER) => {
            fn next<'b>(element: &Element<'b>) -> Option<Element<'b>> {
                element.after.and_then(Element::read).filter(|next| next.tag == INTEGER)
            }
            (std::iter::successors(Some(first), next).take(NUMBERS).count() == NUMBERS).then_some(KEY)
        }
        // EncryptedPrivateKeyInfo (RFC 5958, 3).
        (SEQUENCE, _, OCTET_STRING) => {
            let oid = first.object()?;
            BY_PASSWORD.iter().any(|known| oid.starts_with(known)).then_some(KEY)
        }
        _ => None,
    }
}

const KEY: &str = "a private key";

/// A value with its tag.
struct Element<'b> {
    tag: u8,
    /// Bytes of tag and length.
    header: usize,
    /// Bytes of the value; none where its end is marked instead (BER).
    size: Option<usize>,
    /// As far as it was read.
    value: &'b [u8],
    /// What follows; none where the value was not read to its end.
    after: Option<&'b [u8]>,
}

impl<'b> Element<'b> {
    fn read(bytes: &'b [u8]) -> Option<Self> {
        let (&tag, rest) = bytes.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (size, rest) = match first {
            0x80 => (None, rest),
            0..0x80 => (Some(usize::from(first)), rest),
            _ => {
                let (digits, rest) =
                    rest.split_at_checked(usize::from(first & 0x7f)).filter(|(digits, _)| digits.len() <= 4)?;
                (Some(digits.iter().fold(0, |size, digit| size << 8 | usize::from(*digit))), rest)
            }
        };
        let (value, after) = match size.and_then(|size| rest.split_at_checked(size)) {
            Some((value, after)) => (value, Some(after)),
            None => (rest, None),
        };
        Some(Self { tag, header: bytes.len() - rest.len(), size, value, after })
    }

    /// The object identifier that a sequence begins with.
    fn object(&self) -> Option<&'b [u8]> {
        let first = Self::read(self.value).filter(|_| self.tag == SEQUENCE)?;
        (first.tag == OBJECT_IDENTIFIER).then_some(first.value)
    }
}
