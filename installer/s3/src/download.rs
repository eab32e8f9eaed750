//! An object to wherever it is wanted, in pieces as they come. What breaks off is continued from where it was.

use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap};
use reqwest::{Method, StatusCode};

use crate::call::Call;
use crate::classify::Failed;
use crate::client::S3Client;
use crate::error::S3Error;
use crate::watch::{Moved, Watch};

/// Takes the bytes of an object in their order.
pub type Sink<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<(), S3Error> + Send);

/// How far an object was read.
struct Reading<'a, 's> {
    sink: &'a mut Sink<'s>,
    /// The most bytes that are taken.
    limit: u64,
    done: u64,
    /// Which object it was at the beginning.
    tag: Option<String>,
}

impl S3Client {
    /// Reads an object of at most `limit` bytes, and says how many it had.
    ///
    /// # Errors
    /// The server refuses it, does not answer, or has a longer one.
    pub async fn download(&self, key: &str, limit: u64, sink: Sink<'_>, watch: &dyn Watch) -> Result<u64, S3Error> {
        let what = format!("read {}", self.shown(key));
        let call = Call::new(Method::GET, Some(key), "s3:GetObject", what);
        let mut sink = sink;
        let mut reading = Reading { sink: &mut sink, limit, done: 0, tag: None };
        let mut tries = self.tries(watch);
        loop {
            let before = reading.done;
            match self.read_on(&call, &mut reading, watch).await {
                Ok(()) => return Ok(reading.done),
                Err(failed) => {
                    if reading.done > before {
                        tries.progress();
                    }
                    tries.wait(failed).await?;
                }
            }
        }
    }

    /// One try, from where it was.
    async fn read_on(&self, call: &Call, reading: &mut Reading<'_, '_>, watch: &dyn Watch) -> Result<(), Failed> {
        let mut ranged = call.clone();
        if reading.done > 0 {
            ranged = ranged.header("range", format!("bytes={}-", reading.done));
            if let Some(tag) = &reading.tag {
                ranged = ranged.header("if-match", tag.clone());
            }
        }
        let mut response = self.patiently(self.send(&ranged, None)).await??;
        let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        if reading.done > 0 && tag != reading.tag {
            return Err(S3Error::Changed { what: call.what.clone() }.into());
        }
        let tag = tag.filter(|tag| tag.len() <= 1024 && tag.chars().all(|c| c.is_ascii_graphic()));
        reading.tag = tag;
        // Who does not know ranges begins at the beginning.
        let mut skip = match response.status() == StatusCode::PARTIAL_CONTENT {
            true if starts_at(response.headers()) == Some(reading.done) => 0,
            true => return Err(self.misfit(call, "it sends another range than was asked for").into()),
            false => reading.done,
        };
        let at = if skip > 0 { 0 } else { reading.done };
        let rest = response.headers().get(CONTENT_LENGTH).and_then(|text| text.to_str().ok()?.parse::<u64>().ok());
        let total = rest.map_or(reading.limit, |rest| at.saturating_add(rest));
        if total > reading.limit {
            return Err(self.too_long(call, reading.limit).into());
        }
        while let Some(piece) = self.patiently(response.chunk()).await?.map_err(|error| self.asked().broken(&error))? {
            if watch.is_stopped() {
                return Err(S3Error::Stopped.into());
            }
            let skipped = usize::try_from(skip).unwrap_or(usize::MAX).min(piece.len());
            skip -= skipped as u64;
            let piece = &piece[skipped..];
            if piece.is_empty() {
                continue;
            }
            if piece.len() as u64 > reading.limit - reading.done {
                return Err(self.too_long(call, reading.limit).into());
            }
            (reading.sink)(piece)?;
            reading.done += piece.len() as u64;
            watch.moved(Moved::Down, reading.done, total);
        }
        if skip > 0 {
            return Err(S3Error::Changed { what: call.what.clone() }.into());
        }
        Ok(())
    }

    fn too_long(&self, call: &Call, limit: u64) -> S3Error {
        self.misfit(call, format!("the object has more than {limit} bytes, so it is none that kubexm has written"))
    }
}

/// Where a range begins (`bytes 5-9/10`).
fn starts_at(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    text.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok()
}
