//! The display: a fold of events that owns the terminal while work is under way.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kubexm_spec::event::{Event, EventKind, Next, SCHEMA, StepOutcome};
use kubexm_spec::{ExitCode, counted, printable};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::pace::Pace;
use crate::text;
use crate::waits::Waits;

/// Plain lines of progress come no more often than this.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

/// Events of progress come no more often than this.
const JSON_INTERVAL: Duration = Duration::from_millis(200);

/// Columns that a bar of progress needs with all that is beside it.
const WIDE: usize = 96;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A person at a terminal.
    Terminal,
    /// A log.
    Plain,
    /// A program.
    Json,
}

impl Mode {
    /// `--json` wins; otherwise whether standard error is a terminal.
    pub fn choose(json: bool) -> Self {
        match json {
            true => Self::Json,
            false if std::io::stderr().is_terminal() => Self::Terminal,
            false => Self::Plain,
        }
    }
}

impl State {
    /// Whether a machine is reported: progress only now and then and at its end, everything else always.
    fn is_due(&mut self, kind: &EventKind) -> bool {
        match kind {
            EventKind::Progress { done, total, .. } if *total != Some(*done) => {
                let due = self.last_reported.is_none_or(|last| last.elapsed() >= JSON_INTERVAL);
                if due {
                    self.last_reported = Some(Instant::now());
                }
                due
            }
            _ => true,
        }
    }
}

impl State {
    /// Whether a line about progress would say something else than the one before.
    fn is_news(&mut self, what: &str, done: u64) -> bool {
        let now = (what.to_owned(), done);
        let news = self.last_progress.as_ref() != Some(&now);
        self.last_progress = Some(now);
        news
    }

    /// Whether the end of a step has no line of its own: it would only repeat the one failure, or that nothing is new.
    fn only_counts(&mut self, outcome: StepOutcome) -> bool {
        match outcome {
            StepOutcome::Satisfied => self.unchanged += 1,
            StepOutcome::Blocked => self.skipped += 1,
            StepOutcome::Done | StepOutcome::Failed | StepOutcome::Undone => return false,
        }
        true
    }

    /// A line for the steps that had none, by their outcome, since the last time.
    fn counts(&mut self) -> Vec<String> {
        let counts = [
            (std::mem::take(&mut self.unchanged), "needed no change"),
            (std::mem::take(&mut self.skipped), "skipped, since a step that they need failed"),
        ];
        let line = |(count, what): (u64, &str)| format!("   {} {what}", counted(count, "step"));
        counts.into_iter().filter(|(count, _)| *count > 0).map(line).collect()
    }
}

/// Shows events. Cheap to share behind a reference; never fails (a closed pipe ends the output, not the work).
pub struct Display {
    mode: Mode,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bar: Option<(String, ProgressBar)>,
    /// When progress was last reported as a line.
    last_reported: Option<Instant>,
    /// What was reported as a line, and how far it was.
    last_progress: Option<(String, u64)>,
    /// Of what is reported as lines.
    pace: Option<Pace>,
    /// Why an answer is not where standard output leads.
    unanswered: Option<std::io::Error>,
    end: End,
    waits: Waits,
    /// Steps that needed no change, and those that were skipped, since they were last counted in a line.
    unchanged: u64,
    skipped: u64,
}

/// Whether the end of the program is already reported, and by what; it is reported once.
#[derive(Clone, Copy, Default)]
enum End {
    #[default]
    Open,
    /// Its verb.
    Reported,
    /// A signal.
    Interrupted(ExitCode),
}

impl Display {
    /// A display for one run of a program.
    pub fn new(mode: Mode) -> Self {
        Self { mode, state: Mutex::new(State::default()) }
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Shows something that happens now.
    pub fn emit(&self, kind: EventKind) {
        self.show(Event { schema: SCHEMA.to_owned(), time: now(), kind });
    }

    /// Shows an event that already has its time.
    pub fn show(&self, event: Event) {
        self.put(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), event);
    }

    /// Tells that a signal ends the program, unless its end was reported already: whether it was not. Nothing is shown after it.
    pub fn interrupt(&self, code: ExitCode, text: &str) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(state.end, End::Open) {
            return false;
        }
        let kind = EventKind::Result { ok: false, exit_code: code.code(), summary: text.to_owned(), data: None };
        self.put(&mut state, Event { schema: SCHEMA.to_owned(), time: now(), kind });
        state.end = End::Interrupted(code);
        true
    }

    /// From here on no signal ends the program; how one has ended it before.
    pub(crate) fn conclude(&self) -> Option<ExitCode> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.end {
            End::Interrupted(code) => Some(code),
            End::Open | End::Reported => {
                state.end = End::Reported;
                None
            }
        }
    }

    fn put(&self, state: &mut State, event: Event) {
        match (state.end, &event.kind) {
            (End::Interrupted(_), _) => return,
            (_, EventKind::Result { .. }) => state.end = End::Reported,
            _ => {}
        }
        match self.mode {
            Mode::Json => {
                if state.is_due(&event.kind) {
                    json(&event);
                }
            }
            Mode::Terminal | Mode::Plain => self.for_people(state, event.kind),
        }
    }

    /// An answer of the program, on standard output.
    pub fn answer(&self, text: &str) {
        self.clear();
        self.give(format!("{}\n", printable(text.trim_end())).as_bytes());
    }

    /// Lines that only a person at a terminal sees, on standard error; `lines` gets the terminal's width in columns.
    pub fn for_person(&self, lines: impl FnOnce(usize) -> Vec<String>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.mode == Mode::Terminal && !matches!(state.end, End::Interrupted(_)) {
            lines(width()).iter().for_each(|line| say(&state, line));
        }
    }

    /// Bytes as they are, on standard output; whether somebody still reads. What cannot be written is reported at the end of
    /// the program ([`crate::finish`]), but for a reader that has gone away: it has enough.
    pub fn give(&self, bytes: &[u8]) -> bool {
        if matches!(self.state.lock().unwrap_or_else(PoisonError::into_inner).end, End::Interrupted(_)) {
            return false;
        }
        let mut out = std::io::stdout().lock();
        let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) else { return true };
        if error.kind() != std::io::ErrorKind::BrokenPipe {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).unanswered.get_or_insert(error);
        }
        false
    }

    /// Why an answer was not written, if one was not.
    pub(crate) fn unanswered(&self) -> Option<std::io::Error> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).unanswered.take()
    }

    /// Takes the progress bar away, before a question or an answer.
    pub fn clear(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bar)) = state.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn for_people(&self, state: &mut State, kind: EventKind) {
        match kind {
            EventKind::Progress { what, done, total, unit } => self.progress(state, what, done, total, &unit),
            EventKind::Phase { name } => {
                tally(state);
                if let Some((_, bar)) = state.bar.take() {
                    bar.finish_and_clear();
                }
                (state.last_reported, state.last_progress) = (None, None);
                say(state, &format!("== {name}"));
            }
            EventKind::Note { text } => say(state, &format!("   {text}")),
            EventKind::Warning { text } => say(state, &format!("warning: {text}")),
            EventKind::Waiting { origin, reason, attempt, attempts, next, within_ms, .. } => {
                let tries = attempt.zip(attempts);
                if state.waits.is_new(&origin, &reason, attempt, Duration::from_millis(within_ms)) {
                    say(state, &format!("   {}", waiting(&origin, &reason, tries, next, within_ms)));
                }
            }
            EventKind::StepStarted { host, title, .. } if self.mode == Mode::Terminal => {
                self.spin(state, format!("{host}: {title}"));
            }
            // It is reported when it ends, or has taken a while.
            EventKind::StepStarted { .. } => {}
            EventKind::StepWaiting { host, title, seen, waited_s, limit_s, .. } => {
                let seen = seen.map(|seen| format!(": {seen}")).unwrap_or_default();
                say(state, &format!("   .. {host}: {title} ({waited_s} s of at most {limit_s} s){seen}"));
            }
            EventKind::StepEnded { outcome, .. } if state.only_counts(outcome) => {}
            EventKind::StepEnded { host, title, outcome, duration_ms, error, .. } => {
                say(state, &format!("   {} {host}: {title} ({})", mark(outcome), text::seconds(duration_ms)));
                if let Some(error) = error {
                    say(state, &format!("      {}", error.replace('\n', "\n      ")));
                }
            }
            EventKind::Result { ok, summary, .. } => {
                tally(state);
                if let Some((_, bar)) = state.bar.take() {
                    bar.finish_and_clear();
                }
                say(state, &if ok { summary } else { format!("error: {summary}") });
            }
        }
    }

    fn progress(&self, state: &mut State, what: String, done: u64, total: Option<u64>, unit: &str) {
        if self.mode == Mode::Terminal {
            let fits = state.bar.as_ref().is_some_and(|(name, _)| *name == what);
            if !fits {
                let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
                bar.set_style(style(unit, total.is_some(), width()));
                bar.set_message(printable(&what).into_owned());
                // What is there already says nothing of how fast the rest will come.
                bar.set_position(done);
                bar.reset_eta();
                state.bar = Some((what, bar));
            }
            if let Some((_, bar)) = &state.bar {
                bar.set_position(done);
            }
            return;
        }
        let pace = Pace::of(state.pace.take(), &what, done);
        let rate = if unit == "bytes" { pace.text(done, total) } else { String::new() };
        state.pace = Some(pace);
        let finished = total == Some(done);
        if !finished && state.last_reported.is_some_and(|last| last.elapsed() < PLAIN_INTERVAL) {
            return;
        }
        if !state.is_news(&what, done) {
            return;
        }
        state.last_reported = Some(Instant::now());
        let amount = |n: u64| if unit == "bytes" { text::bytes(n) } else { n.to_string() };
        let of = total.map(|t| format!(" of {}", amount(t))).unwrap_or_default();
        say(state, &format!("   {what}: {}{of}{rate}", amount(done)));
    }

    fn spin(&self, state: &mut State, message: String) {
        let bar = match state.bar.take() {
            Some((name, bar)) if name.is_empty() => bar,
            _ => {
                let bar = ProgressBar::new_spinner();
                bar.set_style(ProgressStyle::default_spinner());
                bar.enable_steady_tick(Duration::from_millis(120));
                bar
            }
        };
        bar.set_message(printable(&message).into_owned());
        state.bar = Some((String::new(), bar));
    }
}

fn tally(state: &mut State) {
    state.counts().iter().for_each(|line| say(state, line));
}

/// A line for people, above the bar when there is one.
fn say(state: &State, line: &str) {
    let write = || {
        let _ = writeln!(std::io::stderr().lock(), "{}", printable(line));
    };
    match &state.bar {
        Some((_, bar)) => bar.suspend(write),
        None => write(),
    }
}

fn json(event: &Event) {
    if let Ok(line) = serde_json::to_string(event) {
        let _ = writeln!(std::io::stdout().lock(), "{line}");
    }
}

/// Origin, reason, which attempt of how many, and when the next one starts.
fn waiting(origin: &str, reason: &str, tries: Option<(u64, u64)>, next: Next, within_ms: u64) -> String {
    let tries = tries.map(|(attempt, attempts)| format!("try {attempt} of {attempts}, ")).unwrap_or_default();
    let within = text::seconds(within_ms);
    match next {
        Next::GiveUp => format!("waiting for {origin}: {reason} ({tries}given up in {within})"),
        Next::Try => format!("waiting for {origin}: {reason} ({tries}next in {within})"),
        Next::Elsewhere => format!("{origin}: {reason}; another source is tried"),
    }
}

fn mark(outcome: StepOutcome) -> &'static str {
    match outcome {
        StepOutcome::Satisfied => "ok  ",
        StepOutcome::Done => "done",
        StepOutcome::Failed => "FAIL",
        StepOutcome::Blocked => "skip",
        StepOutcome::Undone => "back",
    }
}

fn style(unit: &str, bounded: bool, width: usize) -> ProgressStyle {
    ProgressStyle::with_template(template(unit, bounded, width)).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A line that is cut has lost its end, which is what people look at: on a narrow terminal the bar makes room for it.
fn template(unit: &str, bounded: bool, width: usize) -> &'static str {
    match (unit, bounded) {
        ("bytes", true) if width >= WIDE => "   {msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        ("bytes", true) => "  {msg} {percent}% of {total_bytes}, {bytes_per_sec}, {eta} left",
        ("bytes", false) => "   {msg} {spinner} {bytes}, {bytes_per_sec}",
        (_, true) if width >= WIDE => "   {msg} [{bar:30}] {pos} of {len}, {eta} left",
        (_, true) => "   {msg} {pos} of {len}, {eta} left",
        (_, false) => "   {msg} {spinner} {pos}",
    }
}

/// Columns of the terminal of standard error; of what has none, 80.
fn width() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| usize::from(width.0))
}

/// Now as RFC 3339 in UTC.
fn now() -> String {
    OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_and_thirty_steps_that_need_it_are_one_line_more() {
        let mut state = State::default();
        assert!(!state.only_counts(StepOutcome::Failed) && !state.only_counts(StepOutcome::Done));
        for _ in 0..30 {
            assert!(state.only_counts(StepOutcome::Blocked));
        }
        assert!(state.only_counts(StepOutcome::Satisfied));
        let lines = ["   1 step needed no change", "   30 steps skipped, since a step that they need failed"];
        assert_eq!(state.counts(), lines);
        assert_eq!(state.counts(), [""; 0]);
    }

    #[test]
    fn a_line_about_progress_that_has_not_moved_is_not_repeated() {
        let mut state = State::default();
        let lines = [("verify", 5), ("verify", 5), ("verify", 9), ("deliver", 9), ("deliver", 9), ("verify", 9)];
        assert_eq!(lines.map(|(what, done)| state.is_news(what, done)), [true, false, true, true, false, true]);
    }

    #[test]
    fn progress_at_50_columns_keeps_the_amount_the_rate_and_the_time_that_is_left() {
        // The widest that each of them gets.
        let shown = template("bytes", true, 50)
            .replace("{msg}", "fetch")
            .replace("{percent}", "100")
            .replace("{total_bytes}", "1023.99 MiB")
            .replace("{bytes_per_sec}", "99.99 MiB/s")
            .replace("{eta}", "59m");
        assert!(shown.len() <= 50, "{shown} has {} columns", shown.len());
        assert!(template("bytes", true, 120).contains("{bar:30}"));
        assert!(!template("items", true, 50).contains("{bar"));
    }

    #[test]
    fn a_wait_says_for_whom_why_which_try_it_is_and_what_comes_when() {
        let reported =
            |tries, next, within_ms| waiting("https://a.test/f", "503 Service Unavailable", tries, next, within_ms);
        assert_eq!(
            reported(Some((2, 6)), Next::Try, 60_000),
            "waiting for https://a.test/f: 503 Service Unavailable (try 2 of 6, next in 60 s)"
        );
        assert_eq!(
            reported(None, Next::GiveUp, 15_000),
            "waiting for https://a.test/f: 503 Service Unavailable (given up in 15 s)"
        );
        assert_eq!(
            reported(Some((1, 1)), Next::Elsewhere, 0),
            "https://a.test/f: 503 Service Unavailable; another source is tried"
        );
    }
}
