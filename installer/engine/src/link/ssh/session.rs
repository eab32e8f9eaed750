//! Commands on an SSH connection: their streams, and the dialogue with a sudo that asks for a password.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use russh::client::Msg;
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc};
use tokio_util::io::StreamReader;

use super::secret::Password;

/// The maximum output of a command that is kept, in bytes.
const MAX_OUTPUT: usize = 1 << 20;
/// sudo's prompt (`-p`); the password is only sent after it.
pub const PROMPT: &str = "kubexm-asks-for-the-sudo-password:";
/// A line that a script writes before its own output and before it reads its input: a login shell's rc file may print
/// something before, and sudo may read something before.
pub const MARK: &str = "kubexm-begin";

/// The result of a command.
#[derive(Debug, Default)]
pub struct Output {
    /// Exit status; none if it was killed or the connection broke.
    pub status: Option<u32>,
    /// Its standard output, limited to 1 MiB.
    pub stdout: Vec<u8>,
    /// Its standard error, limited to 1 MiB.
    pub stderr: Vec<u8>,
    /// sudo asked for the password a second time.
    pub password_refused: bool,
}

/// The streams of a running command.
pub struct Streams {
    /// Its standard output.
    pub reader: Box<dyn AsyncRead + Unpin + Send>,
    /// Its standard input.
    pub writer: Box<dyn AsyncWrite + Unpin + Send>,
    /// Errors of the command, for the error message if the agent dies.
    pub trouble: Arc<Trouble>,
}

/// What a running command reports besides its output.
#[derive(Debug, Default)]
pub struct Trouble {
    said: Mutex<Vec<u8>>,
    refused: AtomicBool,
}

impl Trouble {
    /// Its standard error so far (the first 8 KiB), for people.
    pub fn said(&self) -> String {
        said(&self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether sudo asked for the password a second time.
    pub fn password_refused(&self) -> bool {
        self.refused.load(Ordering::SeqCst)
    }
}

/// Standard error for people: the part after the script's start, without sudo's prompts.
pub fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr).replace(PROMPT, "");
    let begun = text.rsplit_once(&format!("{MARK}\n")).map_or(text.as_str(), |(_, said)| said);
    begun.trim().to_owned()
}

/// Starts a command and returns its streams. `password` is for the sudo that starts the command.
pub async fn start(channel: Channel<Msg>, command: &str, password: Option<Password>) -> Result<Streams, russh::Error> {
    channel.exec(true, command).await?;
    let (reading, writing) = channel.split();
    let trouble = Arc::new(Trouble::default());
    let (sender, receiver) = mpsc::channel(32);
    let writer = Box::new(writing.make_writer());
    tokio::spawn(pump(reading, writing, sender, Arc::clone(&trouble), Conversation::new(password)));
    let stream = futures::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|data: Bytes| (Ok::<_, std::io::Error>(data), receiver))
    });
    Ok(Streams { reader: Box::new(StreamReader::new(Box::pin(stream))), writer, trouble })
}

/// Runs a script to its end. `input` is sent to its standard input after the script has written [`MARK`]; what comes
/// before is for sudo. None if sshd runs no commands.
pub async fn run(
    channel: Channel<Msg>,
    command: &str,
    password: Option<Password>,
    input: impl AsyncRead + Unpin + Send,
) -> Result<Option<Output>, russh::Error> {
    channel.exec(true, command).await?;
    let (mut reading, writing) = channel.split();
    let begun = Notify::new();
    let feed = async {
        begun.notified().await;
        let mut input = input;
        let mut writer = writing.make_writer();
        // A command that stops reading has written the reason to its standard error.
        let copied = tokio::io::copy(&mut input, &mut writer).await;
        let _ = writing.eof().await;
        copied
    };
    let collect = async {
        let mut conversation = Conversation::new(password);
        let mut output = Output::default();
        let mut mark = Some(MarkSearch::default());
        while let Some(message) = reading.wait().await {
            match message {
                ChannelMsg::Data { data } => {
                    keep(&mut output.stdout, &data, MAX_OUTPUT);
                    if mark.as_mut().is_some_and(|search| search.finds(&output.stdout)) {
                        mark = None;
                        begun.notify_one();
                    }
                }
                ChannelMsg::ExtendedData { data, .. } => {
                    keep(&mut output.stderr, &data, MAX_OUTPUT);
                    if !conversation.go_on(&data, &writing).await? {
                        output.password_refused = true;
                        writing.close().await?;
                        break;
                    }
                }
                ChannelMsg::ExitStatus { exit_status } => output.status = Some(exit_status),
                ChannelMsg::Failure => return Ok(None),
                _ => {}
            }
        }
        Ok(Some(output))
    };
    // The output decides: when the command has ended, unread input does not matter.
    tokio::pin!(feed, collect);
    tokio::select! {
        output = &mut collect => output,
        _ = &mut feed => collect.await,
    }
}

/// Always reads, so that one idle channel does not block the others of the connection. Closes the channel when the
/// streams are dropped.
async fn pump(
    mut reading: ChannelReadHalf,
    writing: ChannelWriteHalf<Msg>,
    sender: mpsc::Sender<Bytes>,
    trouble: Arc<Trouble>,
    mut conversation: Conversation,
) {
    loop {
        let message = tokio::select! {
            message = reading.wait() => message,
            () = sender.closed() => None,
        };
        match message {
            Some(ChannelMsg::Data { data }) => {
                if sender.send(data).await.is_err() {
                    break;
                }
            }
            Some(ChannelMsg::ExtendedData { data, .. }) => {
                keep(&mut trouble.said.lock().unwrap_or_else(PoisonError::into_inner), &data, 8 << 10);
                match conversation.go_on(&data, &writing).await {
                    Ok(true) => {}
                    Ok(false) => {
                        trouble.refused.store(true, Ordering::SeqCst);
                        break;
                    }
                    Err(_) => break,
                }
            }
            None | Some(ChannelMsg::Failure) => break,
            Some(_) => {}
        }
    }
    // A lost connection has no open channels.
    let _ = writing.close().await;
}

fn keep(kept: &mut Vec<u8>, data: &[u8], most: usize) {
    let room = most.saturating_sub(kept.len()).min(data.len());
    kept.extend_from_slice(&data[..room]);
}

/// Looks for the line of [`MARK`] in an output that grows, at each byte once.
#[derive(Debug, Default)]
struct MarkSearch {
    /// Where the last line begins, and up to where line ends were looked for.
    line: usize,
    seen: usize,
}

impl MarkSearch {
    fn finds(&mut self, output: &[u8]) -> bool {
        while let Some(length) = output[self.seen..].iter().position(|byte| *byte == b'\n') {
            let end = self.seen + length;
            if &output[self.line..end] == MARK.as_bytes() {
                return true;
            }
            (self.line, self.seen) = (end + 1, end + 1);
        }
        self.seen = output.len();
        &output[self.line..] == MARK.as_bytes()
    }
}

/// What sudo's standard error asks for.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Nothing,
    AsksOnce,
    /// The password was wrong.
    AsksAgain,
}

/// Detects sudo's prompt in its standard error.
#[derive(Debug)]
struct Conversation {
    password: Option<Password>,
    /// The end of the received bytes, in which a prompt may have started.
    tail: Vec<u8>,
    answered: bool,
}

impl Conversation {
    fn new(password: Option<Password>) -> Self {
        Self { password, tail: Vec::new(), answered: false }
    }

    /// Answers the first prompt. False at the second one: a wrong password is not tried again, since accounts may get
    /// locked.
    async fn go_on(&mut self, data: &[u8], writing: &ChannelWriteHalf<Msg>) -> Result<bool, russh::Error> {
        match (self.hear(data), &self.password) {
            (Heard::AsksOnce, Some(password)) => {
                let line = password.line();
                writing.data(line.as_slice()).await?;
                Ok(true)
            }
            (Heard::AsksAgain, _) => Ok(false),
            _ => Ok(true),
        }
    }

    fn hear(&mut self, data: &[u8]) -> Heard {
        if self.password.is_none() {
            return Heard::Nothing;
        }
        self.tail.extend_from_slice(data);
        let prompt = PROMPT.as_bytes();
        let prompts = self.tail.windows(prompt.len()).filter(|bytes| *bytes == prompt).count();
        if prompts == 0 {
            let from = self.tail.len().saturating_sub(prompt.len() - 1);
            self.tail.drain(..from);
            return Heard::Nothing;
        }
        self.tail.clear();
        let again = self.answered || prompts > 1;
        self.answered = true;
        if again { Heard::AsksAgain } else { Heard::AsksOnce }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_recognized_in_any_pieces_and_a_second_one_means_a_wrong_password() {
        for cut in 0..=PROMPT.len() {
            let mut sudo = Conversation::new(Some(Password::new("x").unwrap()));
            let text = format!("We trust you have received the usual lecture.\n{PROMPT}");
            let (first, second) = text.as_bytes().split_at(text.len() - PROMPT.len() + cut);
            let heard = [sudo.hear(first), sudo.hear(second)];
            assert_eq!(heard.iter().filter(|heard| **heard == Heard::AsksOnce).count(), 1, "{cut}: {heard:?}");
            assert_eq!(sudo.hear(format!("Sorry, try again.\n{PROMPT}").as_bytes()), Heard::AsksAgain);
        }
        assert_eq!(Conversation::new(None).hear(PROMPT.as_bytes()), Heard::Nothing);
    }

    #[test]
    fn the_mark_is_found_in_any_pieces_and_no_byte_is_looked_at_twice() {
        let text = format!("noise of a login shell\nnot {MARK}\n{MARK}\nits own output");
        let at = text.find(&format!("\n{MARK}\n")).unwrap() + 1 + MARK.len();
        for piece in 1..text.len() {
            let mut search = MarkSearch::default();
            let ends = (piece..text.len()).step_by(piece).chain([text.len()]);
            let found = ends.into_iter().find(|end| search.finds(&text.as_bytes()[..*end])).unwrap();
            assert!(found >= at && found < at + piece.max(2), "{piece}: {found}");
        }
        // A second for each byte if the whole of it was searched each time.
        let (long, mut search) = (vec![b'x'; MAX_OUTPUT], MarkSearch::default());
        assert!((0..long.len()).all(|end| !search.finds(&long[..end])));
    }

    #[test]
    fn output_of_a_command_is_reported_without_prompts_and_login_messages() {
        assert_eq!(said(format!("noise\n{MARK}\n{PROMPT}Sorry.\n").as_bytes()), "Sorry.");
        assert_eq!(said(b" plain\n"), "plain");
    }
}
