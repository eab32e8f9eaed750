//! Frames: `u32` big-endian length, one byte for the kind, the body. The length counts kind and body.
//!
//! A length is checked before anything is allocated, and memory grows only with the bytes that were received. A message
//! that compression makes shorter is sent as a zlib stream (RFC 1950) with a separate kind; the same limit applies to
//! its uncompressed length.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use kubexm_spec::json::memory_of;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _};
use zeroize::Zeroize as _;

use super::PROTOCOL;

/// The maximum length of a JSON body in bytes: a step with all its texts is much shorter.
pub const MAX_MESSAGE: usize = 32 << 20;
/// The maximum length of the body of a data frame in bytes.
pub const MAX_DATA: usize = 1 << 20;
/// What a message's JSON may take as memory, in bytes: a ledger of ten thousand records takes less.
pub const MAX_MEMORY: usize = 512 << 20;
/// The most bytes before the magic line.
pub const MAX_NOISE: usize = 256 << 10;

const MESSAGE: u8 = 0;
const DATA: u8 = 1;
const PACKED: u8 = 2;
/// Shorter messages, in bytes, are not compressed.
const WORTH_PACKING: usize = 400;
const MAGIC: &str = "KUBEXM-AGENT/";

/// One frame.
#[derive(Clone, PartialEq, Eq)]
pub enum Frame {
    /// JSON of a message.
    Message(Vec<u8>),
    /// Bytes of a blob.
    Data(Vec<u8>),
}

impl std::fmt::Debug for Frame {
    // A message may contain slot values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Message(body) => write!(f, "Message({} bytes)", body.len()),
            Self::Data(body) => write!(f, "Data({} bytes)", body.len()),
        }
    }
}

/// Why bytes are not valid frames.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The channel broke.
    #[error("the channel failed")]
    Io(#[from] std::io::Error),
    /// The channel ended inside a frame.
    #[error("the channel ended inside a frame")]
    Cut,
    /// A frame is longer than its kind may be.
    #[error("a frame of {length} bytes is longer than the {most} allowed")]
    TooLong {
        /// The announced length, in bytes.
        length: usize,
        /// Limit in bytes.
        most: usize,
    },
    /// No such kind of frame, or an empty one.
    #[error("a frame of unknown kind {0}")]
    Kind(u8),
    /// A compressed message is not a zlib stream.
    #[error("a compressed message that cannot be decompressed")]
    Packed,
    /// Its JSON would take too much memory.
    #[error("a message whose values would take more than the {} MiB of memory allowed", MAX_MEMORY >> 20)]
    TooMany,
    /// The JSON is not a message. serde's text is omitted, since it may quote a secret.
    #[error("a message that cannot be parsed (line {line}, column {column})")]
    Message {
        /// Position in the JSON.
        line: usize,
        /// Position in the JSON.
        column: usize,
    },
    /// No magic line was received.
    #[error("no agent answered; received instead: {0:?}")]
    NoMagic(String),
    /// The magic line is of another protocol version.
    #[error("the agent speaks protocol {theirs:?}, this program {PROTOCOL}")]
    Protocol {
        /// Version in the hello line.
        theirs: String,
    },
}

/// The first line of an agent, on a line of its own whatever was printed before.
pub fn magic_line() -> String {
    format!("\n{MAGIC}{PROTOCOL} {}\n", env!("CARGO_PKG_VERSION"))
}

/// A message as a frame's bytes.
pub fn message_frame(message: &impl Serialize) -> Result<Vec<u8>, WireError> {
    let mut bytes = vec![0; 5];
    serde_json::to_writer(&mut bytes, message).map_err(not_understood)?;
    let mut header = header(MESSAGE, bytes.len() - 5, MAX_MESSAGE)?;
    if bytes.len() >= WORTH_PACKING {
        let mut packed = ZlibEncoder::new(vec![0; 5], Compression::default());
        packed.write_all(&bytes[5..])?;
        let packed = packed.finish()?;
        if packed.len() < bytes.len() {
            // It may contain slot values.
            bytes.zeroize();
            bytes = packed;
            header = self::header(PACKED, bytes.len() - 5, MAX_MESSAGE)?;
        }
    }
    bytes.splice(..5, header);
    Ok(bytes)
}

/// The header of a data frame.
pub fn data_header(length: usize) -> Result<[u8; 5], WireError> {
    header(DATA, length, MAX_DATA)
}

fn header(kind: u8, length: usize, most: usize) -> Result<[u8; 5], WireError> {
    let counted = u32::try_from(length + 1).ok().filter(|_| length <= most);
    let [a, b, c, d] = counted.ok_or(WireError::TooLong { length, most })?.to_be_bytes();
    Ok([a, b, c, d, kind])
}

/// The body's length, if the header is valid.
fn body_length(header: [u8; 5]) -> Result<usize, WireError> {
    let [a, b, c, d, kind] = header;
    let most = match kind {
        MESSAGE | PACKED => MAX_MESSAGE,
        DATA => MAX_DATA,
        other => return Err(WireError::Kind(other)),
    };
    let counted = u32::from_be_bytes([a, b, c, d]) as usize;
    let length = counted.checked_sub(1).ok_or(WireError::Kind(kind))?;
    if length > most {
        return Err(WireError::TooLong { length, most });
    }
    Ok(length)
}

fn frame(header: [u8; 5], body: Vec<u8>, length: usize) -> Result<Frame, WireError> {
    if body.len() != length {
        return Err(WireError::Cut);
    }
    Ok(match header[4] {
        DATA => Frame::Data(body),
        PACKED => Frame::Message(unpack(&body)?),
        _ => Frame::Message(body),
    })
}

/// The message of a compressed body.
fn unpack(body: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut message = Vec::new();
    let most = MAX_MESSAGE as u64;
    ZlibDecoder::new(body).take(most + 1).read_to_end(&mut message).map_err(|_| WireError::Packed)?;
    if message.len() > MAX_MESSAGE {
        return Err(WireError::TooLong { length: message.len(), most: MAX_MESSAGE });
    }
    Ok(message)
}

/// Reads a message's JSON.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    if memory_of(body) > MAX_MEMORY {
        return Err(WireError::TooMany);
    }
    serde_json::from_slice(body).map_err(not_understood)
}

/// The id of a message that is not parsed.
pub fn id(body: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Id {
        id: u64,
    }
    serde_json::from_slice::<Id>(body).ok().map(|message| message.id)
}

fn not_understood(error: serde_json::Error) -> WireError {
    WireError::Message { line: error.line(), column: error.column() }
}

/// Writes a message and flushes.
pub fn write_message(writer: &mut impl Write, message: &impl Serialize) -> Result<(), WireError> {
    writer.write_all(&message_frame(message)?)?;
    Ok(writer.flush()?)
}

/// The next frame; none if the channel ended between frames.
pub fn read_frame(reader: &mut impl Read) -> Result<Option<Frame>, WireError> {
    let mut head = Vec::with_capacity(5);
    reader.by_ref().take(5).read_to_end(&mut head)?;
    let Some(head) = whole_header(&head)? else { return Ok(None) };
    let length = body_length(head)?;
    let mut body = Vec::with_capacity(length.min(MAX_DATA));
    reader.by_ref().take(length as u64).read_to_end(&mut body)?;
    frame(head, body, length).map(Some)
}

/// The next frame; none if the channel ended between frames. Not cancel safe.
pub async fn next_frame(reader: &mut (impl AsyncRead + Unpin)) -> Result<Option<Frame>, WireError> {
    let mut head = Vec::with_capacity(5);
    reader.take(5).read_to_end(&mut head).await?;
    let Some(head) = whole_header(&head)? else { return Ok(None) };
    let length = body_length(head)?;
    let mut body = Vec::with_capacity(length.min(MAX_DATA));
    reader.take(length as u64).read_to_end(&mut body).await?;
    frame(head, body, length).map(Some)
}

fn whole_header(head: &[u8]) -> Result<Option<[u8; 5]>, WireError> {
    match head {
        [] => Ok(None),
        other => other.try_into().map(Some).map_err(|_| WireError::Cut),
    }
}

/// Skips the output of a login shell, up to and including the magic line.
pub async fn skip_to_magic(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<(), WireError> {
    let mut limited = reader.take(MAX_NOISE as u64);
    let mut noise = String::new();
    loop {
        let mut line = Vec::new();
        limited.read_until(b'\n', &mut line).await?;
        let text = String::from_utf8_lossy(&line);
        if let Some(rest) = text.strip_prefix(MAGIC).and_then(|rest| rest.strip_suffix('\n')) {
            let theirs = rest.split(' ').next().unwrap_or(rest);
            let ours = theirs == PROTOCOL.to_string();
            return if ours { Ok(()) } else { Err(WireError::Protocol { theirs: theirs.to_owned() }) };
        }
        if line.is_empty() {
            return Err(WireError::NoMagic(noise.trim().to_owned()));
        }
        if noise.len() < 400 {
            noise.extend(text.chars().take(400));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_compressed_and_short_ones_are_not() {
        let long = vec!["the same again"; 1000];
        let bytes = message_frame(&long).unwrap();
        assert_eq!(bytes[4], PACKED);
        assert!(bytes.len() < 500, "{} bytes", bytes.len());
        let Some(Frame::Message(body)) = read_frame(&mut bytes.as_slice()).unwrap() else { panic!("no message") };
        assert_eq!(parse::<Vec<String>>(&body).unwrap(), long);
        assert_eq!(message_frame(&["short"]).unwrap()[4], MESSAGE);
    }

    #[test]
    fn a_message_of_many_small_values_is_refused_before_it_is_parsed() {
        let body = format!(r#"{{"id":7,"answer":[{}]}}"#, vec![r#"{"":0}"#; 1 << 20].join(","));
        assert!(body.len() < MAX_MESSAGE / 4);
        let refused = parse::<serde_json::Value>(body.as_bytes()).unwrap_err();
        assert!(matches!(refused, WireError::TooMany) && refused.to_string().contains("512 MiB"), "{refused}");
        assert_eq!(id(body.as_bytes()), Some(7), "who waits for it is told");
        assert_eq!(id(b"{}"), None);
    }

    #[test]
    fn a_packed_message_that_unpacks_to_more_than_a_message_may_have_is_refused_and_so_is_a_broken_one() {
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&vec![b' '; MAX_MESSAGE + 1]).unwrap();
        let packed = packed.finish().unwrap();
        let frame = |body: &[u8]| [&header(PACKED, body.len(), MAX_MESSAGE).unwrap(), body].concat();
        let refused = read_frame(&mut frame(&packed).as_slice()).unwrap_err();
        assert!(matches!(refused, WireError::TooLong { .. }), "{refused}");
        let cut = read_frame(&mut frame(&packed[..packed.len() / 2]).as_slice()).unwrap_err();
        assert!(matches!(cut, WireError::Packed), "{cut}");
    }
}
