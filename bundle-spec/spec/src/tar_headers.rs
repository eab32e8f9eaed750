//! A limit on the headers of a tar archive. Long names (GNU) and pax headers say themselves how long they are, and a reader of
//! archives has them in memory before it shows the member that they are about.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// The most bytes of all headers of a member: what Go's archive/tar takes for one (`maxSpecialFileSize`). Real ones have some
/// hundred.
const LIMIT: u64 = 1 << 20;

/// The bytes of an archive. They end with an error where the headers of a member are longer than any real ones.
#[derive(Debug)]
pub struct LimitedHeaders<R> {
    inner: R,
    /// Bytes that headers may still have; none while a member is read.
    left: Rc<Cell<Option<u64>>>,
}

/// Asks for the members of an archive whose bytes are [`LimitedHeaders`].
#[derive(Debug)]
pub struct Members(Rc<Cell<Option<u64>>>);

impl<R> LimitedHeaders<R> {
    /// Of the unpacked bytes of an archive, and what its members are asked for by.
    pub fn of(inner: R) -> (Self, Members) {
        let left = Rc::new(Cell::new(None));
        (Self { inner, left: Rc::clone(&left) }, Members(left))
    }

    /// Where the bytes come from.
    pub fn into_inner(self) -> R {
        self.inner
    }
}

impl Members {
    /// The next of all members. The one before was read to its end: what is left of it counts as headers.
    pub fn next_of<T>(&self, all: &mut impl Iterator<Item = T>) -> Option<T> {
        self.0.set(Some(LIMIT));
        let next = all.next();
        self.0.set(None);
        next
    }
}

impl<R: Read> Read for LimitedHeaders<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(left) = self.left.get() else { return self.inner.read(buffer) };
        if left == 0 {
            return Err(io::Error::other(format!("the headers of a member have more than {LIMIT} bytes")));
        }
        let most = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = self.inner.read(&mut buffer[..most])?;
        self.left.set(Some(left - count as u64));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_a_member_have_a_limit_and_its_bytes_have_none() {
        let (mut bytes, members) = LimitedHeaders::of(io::repeat(7));
        let mut read = |count: u64| io::copy(&mut bytes.by_ref().take(count), &mut io::sink());
        for _ in 0..3 {
            let headers = members.next_of(&mut std::iter::once_with(|| read(LIMIT)));
            assert_eq!(headers.unwrap().unwrap(), LIMIT);
            assert_eq!(read(2 * LIMIT).unwrap(), 2 * LIMIT);
        }
        let headers = members.next_of(&mut std::iter::once_with(|| read(LIMIT + 1)));
        assert!(headers.unwrap().unwrap_err().to_string().contains("headers of a member"));
    }
}
