//! What goes wrong.

use std::io::Write;
use std::time::Duration;

use super::wire::{Request, Response, refusal};

/// What goes wrong with which requests.
#[derive(Clone, Debug)]
pub struct Fault {
    method: &'static str,
    word: &'static str,
    times: u32,
    after: u32,
    what: What,
}

/// How it goes wrong.
#[derive(Clone, Debug)]
pub enum What {
    /// It is refused: status, code, message.
    Refused(u16, &'static str, String),
    /// It is done, and the answer is cut off after so many bytes of its body.
    Cut(usize),
    /// It is done, and nobody is answered.
    Silent,
    /// The answer comes after so many milliseconds.
    Late(u64),
    /// The answer is a document of so many bytes.
    Huge(usize),
    /// It leads on.
    Redirect(u16, String),
    /// The answer has another byte.
    Altered,
    /// The answer is this text.
    Text(String),
}

impl Fault {
    /// All requests of a method whose path and query have a word.
    pub fn of(method: &'static str, word: &'static str, what: What) -> Self {
        Self { method, word, times: u32::MAX, after: 0, what }
    }

    /// So many of them.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    /// The first ones go well.
    #[must_use]
    pub fn after(self, after: u32) -> Self {
        Self { after, ..self }
    }
}

/// The fault of a request, if it has one.
pub(super) fn next(faults: &mut [Fault], request: &Request) -> Option<What> {
    for fault in faults {
        if fault.method != request.method || !request.target.contains(fault.word) || fault.times == 0 {
            continue;
        }
        if fault.after > 0 {
            fault.after -= 1;
            continue;
        }
        fault.times -= 1;
        return Some(fault.what.clone());
    }
    None
}

/// What is answered instead of doing what was asked for.
pub(super) fn instead(what: &What) -> Option<Response> {
    match what {
        What::Refused(status, code, message) => Some(refusal(*status, code, message)),
        What::Huge(size) => {
            let mut body = b"<ListBucketResult>".to_vec();
            body.resize(*size, b'a');
            Some(Response::new(200, body))
        }
        What::Redirect(status, to) => Some(Response::new(*status, Vec::new()).with("location", to.clone())),
        What::Text(text) => Some(Response::new(200, text.clone().into_bytes())),
        What::Cut(_) | What::Silent | What::Late(_) | What::Altered => None,
    }
}

/// Sends an answer; false if the connection ends with it.
pub(super) fn write(stream: &mut impl Write, answer: &Response, what: Option<&What>) -> bool {
    match what {
        Some(What::Silent) => return false,
        Some(What::Cut(after)) => {
            let _ = stream.write_all(answer.head().as_bytes());
            let _ = stream.write_all(&answer.body[..(*after).min(answer.body.len())]);
            let _ = stream.flush();
            return false;
        }
        Some(What::Late(pause)) => std::thread::sleep(Duration::from_millis(*pause)),
        Some(What::Altered) if !answer.body.is_empty() => {
            let mut body = answer.body.clone();
            let middle = body.len() / 2;
            body[middle] ^= 1;
            let altered = Response { status: answer.status, headers: answer.headers.clone(), body };
            return altered.write(stream).is_ok();
        }
        _ => {}
    }
    answer.write(stream).is_ok()
}
