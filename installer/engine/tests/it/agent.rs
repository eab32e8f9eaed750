//! The agent over plain pipes, with work that the test steers; and frames of whatever bytes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: what cannot continue fails the test")]

use std::fs::{File, TryLockError};
use std::io::{PipeReader, PipeWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kubexm_engine::link::agent::{AgentError, Work, serve, serve_store};
use kubexm_engine::link::wire::frame::{MAX_DATA, MAX_MESSAGE, data_header, magic_line, message_frame, parse};
use kubexm_engine::link::wire::frame::{next_frame, read_frame, skip_to_magic, write_message};
use kubexm_engine::link::wire::{
    Frame, PROTOCOL, Request, RequestMessage, Response, ResponseMessage, Secrets, WireError,
};
use kubexm_engine::link::{Change, SlotValues};
use kubexm_plan::facts::DataFolders;
use kubexm_plan::{
    ClusterFacts, Facts, ObservedState, Probe, ProbeAnswer, SlotName, SlotProvider, Step, StepDrift, Survey, Texts,
    Undo, Wave, ledger,
};
use proptest::prelude::*;

/// A converge says that it began, and ends when it is told to.
#[derive(Clone)]
struct Steered {
    folder: PathBuf,
    began: Sender<()>,
    go_on: Arc<Mutex<Receiver<()>>>,
}

impl Work for Steered {
    fn facts(&self, _: &str, _: &DataFolders) -> Result<Facts, String> {
        Err("no facts".into())
    }

    fn cluster_facts(&self, _: &str) -> ClusterFacts {
        ClusterFacts::default()
    }

    fn observe(&self, _: &Step, _: Texts, _: SlotValues) -> Result<Vec<ObservedState>, String> {
        Ok(Vec::new())
    }

    fn survey(&self, _: &[Step], _: Texts, _: SlotValues) -> Result<Survey, String> {
        Ok(Survey::default())
    }

    fn drift(&self, _: &[Step], _: Texts, _: SlotValues) -> Result<Vec<StepDrift>, String> {
        Ok(Vec::new())
    }

    fn converge(&self, _: &Step, _: Texts, _: SlotValues, change: Change<'_>) -> Result<(), String> {
        self.began.send(()).map_err(|error| error.to_string())?;
        self.go_on.lock().unwrap().recv().map_err(|error| error.to_string())?;
        std::fs::write(self.folder.join("ledger"), change.run).map_err(|error| error.to_string())
    }

    fn undo(&self, _: &Step, _: Texts, _: Change<'_>, _: Wave) -> Result<(), String> {
        Ok(())
    }

    fn provide(&self, _: &SlotProvider) -> Result<Vec<u8>, String> {
        Err("no slots".into())
    }

    fn ledger(&self) -> Result<Vec<ledger::Record>, String> {
        Ok(Vec::new())
    }

    fn probe(&self, _: &Probe) -> Result<ProbeAnswer, String> {
        Err("no probe".into())
    }

    fn evidence(&self) -> Result<Vec<(String, String)>, String> {
        Ok(Vec::new())
    }

    fn admin_kubeconfig(&self) -> Result<Vec<u8>, String> {
        Err("no cluster".into())
    }

    fn step_log(&self, _: &str, _: &Step) -> Result<String, String> {
        Ok(String::new())
    }

    fn lock_path(&self) -> PathBuf {
        self.folder.join("lock")
    }

    fn store_path(&self) -> PathBuf {
        self.folder.join("store")
    }
}

/// A running agent and the controller's ends of its pipes.
struct Agent {
    to: PipeWriter,
    from: PipeReader,
    thread: JoinHandle<Result<(), AgentError>>,
}

impl Agent {
    fn start(work: Steered, holder: &str) -> Self {
        Self::start_mode(holder, move |stdin, stdout| serve(stdin, stdout, work))
    }

    /// One of the agent's modes, after the first answer.
    fn start_mode(
        holder: &str,
        mode: impl FnOnce(PipeReader, PipeWriter) -> Result<(), AgentError> + Send + 'static,
    ) -> Self {
        let (stdin, to) = std::io::pipe().unwrap();
        let (mut from, stdout) = std::io::pipe().unwrap();
        let thread = std::thread::spawn(move || mode(stdin, stdout));
        let mut magic = vec![0; magic_line().len()];
        std::io::Read::read_exact(&mut from, &mut magic).unwrap();
        assert_eq!(String::from_utf8(magic).unwrap(), magic_line());
        let mut agent = Self { to, from, thread };
        agent.ask(1, Request::Hello { protocol: PROTOCOL, version: "test".into(), holder: holder.into() });
        assert!(matches!(agent.answer(), (1, Response::Hello { .. })));
        agent
    }

    fn ask(&mut self, id: u64, ask: Request) {
        write_message(&mut self.to, &RequestMessage { id, ask }).unwrap();
    }

    fn answer(&mut self) -> (u64, Response) {
        match read_frame(&mut self.from).unwrap() {
            Some(Frame::Message(body)) => {
                let ResponseMessage { id, answer } = parse(&body).unwrap();
                (id, answer)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn step() -> Box<Step> {
    Box::new(Step::on("node1", "test.slow", "Take long").undo(Undo::Nothing).build())
}

fn converge(run: &str) -> Request {
    Request::Converge {
        step: step(),
        texts: Texts::new(),
        slots: Secrets::default(),
        run: run.into(),
        sequence: 1,
        before: Vec::new(),
    }
}

fn observe() -> Request {
    Request::Observe { step: step(), texts: Texts::new(), slots: Secrets::default() }
}

struct Steering {
    folder: tempfile::TempDir,
    work: Steered,
    began: Receiver<()>,
    go_on: Sender<()>,
}

fn steering() -> Steering {
    let folder = tempfile::tempdir().unwrap();
    let (began_to, began) = channel();
    let (go_on, go_on_from) = channel();
    let work = Steered { folder: folder.path().to_owned(), began: began_to, go_on: Arc::new(Mutex::new(go_on_from)) };
    Steering { folder, work, began, go_on }
}

#[test]
fn a_ping_is_answered_while_a_step_runs() {
    let steering = steering();
    let mut agent = Agent::start(steering.work, "run 1");
    agent.ask(2, converge("run 1"));
    steering.began.recv().unwrap();
    agent.ask(3, Request::Ping);
    assert!(matches!(agent.answer(), (3, Response::Pong { .. })));
    steering.go_on.send(()).unwrap();
    assert!(matches!(agent.answer(), (2, Response::Converged)));
    agent.ask(4, Request::Bye);
    assert!(matches!(agent.answer(), (4, Response::Bye)));
    agent.thread.join().unwrap().unwrap();
}

/// Whether whoever removes the agent's program would find it used.
fn is_present(folder: &Path) -> bool {
    match File::open(folder.join("agents.lock")).unwrap().try_lock() {
        Ok(()) => false,
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(error)) => panic!("{error}"),
    }
}

/// From the first answer on: a controller whose operator declines then leaves the program to this one.
#[test]
fn an_agent_in_each_mode_is_seen_by_whoever_would_remove_its_program_until_it_ends() {
    let steering = steering();
    let folder = steering.folder.path();
    let work = steering.work.clone();
    let store = Agent::start_mode("run 1", move |stdin, stdout| serve_store(stdin, stdout, work));
    assert!(is_present(folder), "a store channel is open");
    let first = Agent::start(steering.work.clone(), "run 1");
    for mut agent in [store, first] {
        assert!(is_present(folder));
        agent.ask(2, Request::Bye);
        assert!(matches!(agent.answer(), (2, Response::Bye)));
        agent.thread.join().unwrap().unwrap();
    }
    assert!(!is_present(folder), "both have ended");
    let agent = Agent::start(steering.work, "run 2");
    assert!(is_present(folder), "an agent runs");
    drop((agent.to, agent.from));
    agent.thread.join().unwrap().unwrap();
    assert!(!is_present(folder), "its controller is gone");
}

/// The controller gave the step up: its time was over, but it still runs.
#[test]
fn a_running_step_is_neither_started_again_nor_rolled_back() {
    let steering = steering();
    let mut agent = Agent::start(steering.work, "run 1");
    agent.ask(2, converge("run 1"));
    steering.began.recv().unwrap();
    agent.ask(3, converge("run 1"));
    assert!(steering.began.recv_timeout(Duration::from_millis(300)).is_err(), "it was begun beside itself");
    let undo = Request::Undo {
        step: step(),
        texts: Texts::new(),
        run: "run 1".into(),
        sequence: 1,
        before: Vec::new(),
        wave: Wave::Stop,
    };
    agent.ask(4, undo);
    steering.go_on.send(()).unwrap();
    assert!(matches!(agent.answer(), (2, Response::Converged)));
    steering.began.recv().unwrap();
    steering.go_on.send(()).unwrap();
    let later = [agent.answer(), agent.answer()];
    assert!(matches!(later, [(3, Response::Converged), (4, Response::Undone)]), "{later:?}");
    agent.ask(5, Request::Bye);
    assert!(matches!(agent.answer(), (5, Response::Bye)));
    agent.thread.join().unwrap().unwrap();
}

#[test]
fn when_the_controller_is_killed_the_step_is_finished_and_the_next_agent_waits_for_that() {
    let steering = steering();
    let mut first = Agent::start(steering.work.clone(), "run 1");
    first.ask(2, converge("run 1"));
    steering.began.recv().unwrap();
    let Agent { to, from, thread } = first;
    drop((to, from));

    // The note in the lock file says that the first takes nothing new; only then is waiting what is tested.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(steering.folder.path().join("lock")).unwrap().contains("\"finishing\":true") {
        assert!(Instant::now() < deadline, "the agent did not notice that its controller is gone");
        std::thread::yield_now();
    }
    let mut second = Agent::start(steering.work.clone(), "run 2");
    second.ask(2, observe());
    let answered = std::thread::spawn(move || (second.answer(), second));
    std::thread::sleep(Duration::from_millis(300));
    assert!(!thread.is_finished() && !answered.is_finished(), "the step was not finished, or not waited for");

    steering.go_on.send(()).unwrap();
    thread.join().unwrap().unwrap();
    let ((id, answer), _second) = answered.join().unwrap();
    assert!(matches!((id, &answer), (2, Response::Observed { .. })), "{answer:?}");
    assert_eq!(std::fs::read_to_string(steering.folder.path().join("ledger")).unwrap(), "run 1");
}

#[test]
fn an_agent_of_another_protocol_says_so() {
    let steering = steering();
    let mut agent = Agent::start(steering.work, "run 1");
    agent.ask(2, Request::Hello { protocol: PROTOCOL + 1, version: "9".into(), holder: String::new() });
    match agent.answer() {
        (2, Response::NotUnderstood { reason }) => assert!(reason.contains(&(PROTOCOL + 1).to_string()), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_that_are_no_frames_end_the_agent_with_an_error() {
    let steering = steering();
    let mut agent = Agent::start(steering.work, "run 1");
    agent.to.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(agent.thread.join().unwrap().is_err());
}

#[test]
fn a_slot_value_is_never_shown_and_arrives_whole() {
    let secret = b"\x00PRIVATE KEY\xff".to_vec();
    let values: SlotValues = [(SlotName("registry-key".into()), secret.clone())].into();
    let ask = Request::Observe { step: step(), texts: Texts::new(), slots: Secrets::new(&values) };
    let shown = format!("{ask:?}");
    assert!(shown.contains("registry-key") && !shown.contains("PRIVATE") && !shown.contains("80, 82"), "{shown}");

    let frame = message_frame(&RequestMessage { id: 7, ask }).unwrap();
    let Ok(Some(Frame::Message(body))) = read_frame(&mut frame.as_slice()) else { panic!("no message") };
    let Request::Observe { slots, .. } = parse::<RequestMessage>(&body).unwrap().ask else { panic!("another request") };
    assert_eq!(slots.into_values(), values);

    let text = String::from_utf8(body).unwrap().replace("\"registry-key\":\"", "\"registry-key\":\"%");
    let refused = parse::<RequestMessage>(text.as_bytes()).unwrap_err();
    assert!(!format!("{refused} {refused:?}").contains("UFJJ"), "the error quotes the secret");
}

#[test]
fn a_length_beyond_the_limit_is_refused_before_its_bytes_are_waited_for() {
    for (kind, most) in [(0, MAX_MESSAGE), (1, MAX_DATA)] {
        let [a, b, c, d] = u32::try_from(most + 2).unwrap().to_be_bytes();
        let refused = read_frame(&mut [a, b, c, d, kind].as_slice()).unwrap_err();
        assert!(matches!(refused, WireError::TooLong { length, .. } if length == most + 1), "{refused}");
    }
    assert!(data_header(MAX_DATA + 1).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_frames_or_an_error_the_same_for_both_readers(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (mut one, mut other) = (bytes.as_slice(), bytes.as_slice());
        loop {
            let blocking = read_frame(&mut one).map_err(|error| error.to_string());
            let waiting = runtime.block_on(next_frame(&mut other)).map_err(|error| error.to_string());
            prop_assert_eq!(&blocking, &waiting);
            match blocking {
                Ok(Some(frame)) => { let (Frame::Message(body) | Frame::Data(body)) = frame; let _ = parse::<RequestMessage>(&body); }
                _ => break,
            }
        }
    }

    #[test]
    fn data_is_transferred_unchanged_and_truncation_is_noticed(data in prop::collection::vec(any::<u8>(), 0..2000), cut in any::<prop::sample::Index>()) {
        let mut bytes = data_header(data.len()).unwrap().to_vec();
        bytes.extend_from_slice(&data);
        prop_assert_eq!(read_frame(&mut bytes.as_slice()).unwrap(), Some(Frame::Data(data)));
        let kept = cut.index(bytes.len());
        let short = read_frame(&mut &bytes[..kept]);
        let noticed = if kept == 0 { matches!(short, Ok(None)) } else { matches!(short, Err(WireError::Cut)) };
        prop_assert!(noticed, "{:?}", short);
    }

    #[test]
    fn noise_before_the_magic_line_is_skipped_whatever_it_is(noise in "[ -~\n]{0,300}", rest in "[a-z]{0,20}") {
        prop_assume!(!noise.contains("KUBEXM-AGENT/"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let text = format!("{noise}{}{rest}", magic_line());
        let mut reader = text.as_bytes();
        runtime.block_on(skip_to_magic(&mut reader)).unwrap();
        prop_assert_eq!(reader, rest.as_bytes());
        let refused = runtime.block_on(skip_to_magic(&mut noise.as_bytes())).unwrap_err();
        prop_assert!(matches!(refused, WireError::NoMagic(_)));
    }
}
