//! A connection that is over at a moment, however slowly the other side sends: a limit of each read alone is met by a byte at a time.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Reads and writes until then.
#[derive(Debug)]
pub(super) struct Limited {
    socket: TcpStream,
    ends: Instant,
    /// For each read and write.
    each: Duration,
}

impl Limited {
    pub fn new(socket: TcpStream, each: Duration, whole: Duration) -> Self {
        Self { socket, ends: Instant::now() + whole, each }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        match self.ends.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::Error::new(io::ErrorKind::TimedOut, "it was not over in time")),
            left => Ok(Some(left.min(self.each))),
        }
    }
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(buffer)
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
