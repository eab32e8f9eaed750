//! A connection that is cut when its client takes what it asked for too slowly.
//!
//! Whoever reads one byte a minute keeps a connection and an open file of the depot for as long as it likes, and no timeout
//! between two bytes ends that. So it is counted what a client takes while the depot waits for it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// The least that a client must take.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Bytes in each [`Pace::within`].
    pub bytes: u64,
    /// Of time in which the depot waits for the client; time without a request or with a fast client does not count.
    pub within: Duration,
}

/// A connection with a [`Pace`].
pub struct Paced<S> {
    stream: S,
    pace: Pace,
    /// Time spent waiting for the client before the present wait, since the last time the pace was kept.
    waited: Duration,
    /// Bytes taken in that time.
    taken: u64,
    /// The present wait, and the end of what is left of the time.
    wait: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S> Paced<S> {
    pub fn new(stream: S, pace: Pace) -> Self {
        Self { stream, pace, waited: Duration::ZERO, taken: 0, wait: None }
    }

    /// After the stream took so many bytes or none yet.
    fn judge(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = written else {
            let left = self.pace.within.saturating_sub(self.waited);
            let (_, sleep) = self.wait.get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(left))));
            ready!(sleep.as_mut().poll(cx));
            let why = format!(
                "the client took {} bytes in {} s of waiting for it",
                self.taken,
                self.pace.within.as_secs_f32()
            );
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)));
        };
        if let Some((since, _)) = self.wait.take() {
            self.waited += since.elapsed();
        }
        self.taken += written.as_ref().map_or(0, |length| *length as u64);
        if self.taken >= self.pace.bytes {
            (self.taken, self.waited) = (0, Duration::ZERO);
        }
        Poll::Ready(written)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        all: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, all);
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A client, and what becomes of the megabyte that is sent to it.
    fn sending(pace: Pace) -> (DuplexStream, impl Future<Output = (io::Result<()>, Duration)>) {
        let (client, stream) = tokio::io::duplex(64);
        let mut stream = Paced::new(stream, pace);
        let begun = Instant::now();
        (client, async move { (stream.write_all(&[0; 1 << 20]).await, begun.elapsed()) })
    }

    #[tokio::test(start_paused = true)]
    async fn who_pauses_for_less_than_the_time_after_each_part_is_not_cut_however_long_it_takes() {
        let (mut client, sent) = sending(Pace { bytes: 1000, within: 10 * SECOND });
        let reads = async {
            for _ in 0..100 {
                tokio::time::sleep(9 * SECOND).await;
                client.read_exact(&mut [0; 2000]).await.unwrap();
            }
            client.read_to_end(&mut Vec::new()).await.unwrap()
        };
        let (rest, (ended, took)) = tokio::join!(reads, sent);
        ended.unwrap();
        assert_eq!(rest, (1 << 20) - 100 * 2000);
        assert!(took >= 900 * SECOND, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_little_all_the_time_is_cut_when_the_time_is_over() {
        let (mut client, sent) = sending(Pace { bytes: 1000, within: 10 * SECOND });
        let reads = async {
            while client.read_u8().await.is_ok() {
                tokio::time::sleep(SECOND / 10).await;
            }
        };
        let (ended, took) = tokio::select! {
            ended = sent => ended,
            () = reads => panic!("it was served to the end"),
        };
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!((10 * SECOND..11 * SECOND).contains(&took), "{took:?}");
    }
}
