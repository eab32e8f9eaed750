//! The journal's reader and writer, and the table of what may follow what.

#![allow(clippy::expect_used, reason = "a test that cannot set itself up has failed")]

use kubexm_engine::journal::{Ended, Entry, Journal, ParseError, Record, Scope, UndoEnd, parse};
use kubexm_engine::replay::Replay;
use kubexm_engine::{EngineError, link::ObservedState};
use kubexm_plan::op::SwapOff;
use kubexm_plan::{Op, Reset, StepId, Wave};
use kubexm_spec::{Digest, ExitCode};
use proptest::prelude::*;

fn step(name: &str) -> StepId {
    StepId(format!("a/{name}"))
}

fn found(text: &str) -> ObservedState {
    ObservedState::opaque(&serde_json::json!({ "digest": text }), false)
}

fn started() -> Record {
    Record::RunStarted {
        plan: Digest::of("plan"),
        tool: "test".to_owned(),
        resume: String::new(),
        rollback: String::new(),
    }
}

fn entry(record: Record) -> Entry {
    Entry { time: "2026-01-01T00:00:00.000Z".to_owned(), record }
}

fn record() -> impl Strategy<Value = Record> {
    let id = "[a-z]{1,8}".prop_map(|name| step(&name));
    prop_oneof![
        Just(started()),
        Just(Record::Resumed { tool: "test".to_owned() }),
        (id.clone(), any::<u64>(), proptest::collection::vec(".*".prop_map(|t| found(&t)), 0..3))
            .prop_map(|(step, sequence, before)| Record::StepPrepared { step, sequence, before }),
        (id.clone(), any::<u64>()).prop_map(|(step, duration_ms)| Record::StepSatisfied { step, duration_ms }),
        (id.clone(), any::<u64>()).prop_map(|(step, duration_ms)| Record::StepDone { step, duration_ms }),
        (id.clone(), ".*", any::<u32>(), any::<u64>())
            .prop_map(|(step, error, tries, duration_ms)| Record::StepFailed { step, error, tries, duration_ms }),
        (id.clone(), ".*", any::<u32>()).prop_map(|(step, error, tries)| Record::UndoFailed {
            step,
            wave: Wave::Data,
            error,
            tries
        }),
        (".*", proptest::collection::vec(id.clone(), 0..3)).prop_map(|(host, steps)| Record::UndoBegan {
            scope: Scope::Host { host },
            why: "a test".to_owned(),
            steps
        }),
        id.clone().prop_map(|step| Record::WaveDone { step, wave: Wave::Stop }),
        ".*".prop_map(|why| Record::UndoEnded { scope: Scope::Run, end: UndoEnd::Stuck { why } }),
        (id.clone(), id).prop_map(|(step, on)| Record::StepBlocked { step, on }),
        Just(Record::Interrupted),
        Just(Record::RunEnded { outcome: Ended::Failed }),
    ]
}

fn bytes(entries: &[Entry]) -> Vec<u8> {
    let line = |entry| serde_json::to_string(entry).expect("JSON") + "\n";
    entries.iter().map(line).collect::<String>().into_bytes()
}

proptest! {
    #[test]
    fn what_was_written_reads_back_and_any_cut_gives_the_records_before_it(
        records in proptest::collection::vec(record(), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let entries: Vec<Entry> = records.into_iter().map(entry).collect();
        let whole = bytes(&entries);
        prop_assert_eq!(&parse(&whole).expect("a journal").entries, &entries);
        let cut = &whole[..cut.index(whole.len() + 1)];
        let parsed = parse(cut).expect("a torn line is cut off");
        prop_assert_eq!(&parsed.entries[..], &entries[..parsed.entries.len()]);
        prop_assert!(parsed.whole as usize <= cut.len());
        prop_assert_eq!(bytes(&parsed.entries).len() as u64, parsed.whole);
    }

    #[test]
    fn no_bytes_make_the_reader_or_the_fold_panic(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(parsed) = parse(&noise) {
            let _ = Replay::of(&parsed.entries);
        }
    }

    #[test]
    fn no_order_of_records_makes_the_fold_panic_or_lose_a_first_before_state(
        records in proptest::collection::vec(record(), 0..20),
    ) {
        let mut replay = Replay { next_sequence: 1, ..Replay::default() };
        for record in records {
            let before = replay.clone();
            if replay.apply(&entry(record)).is_err() {
                prop_assert_eq!(&replay, &before, "a refused record changes nothing");
            }
            for (id, story) in &before.steps {
                if story.before.is_some() {
                    prop_assert_eq!(&replay.step(id).before, &story.before);
                }
            }
        }
    }

    #[test]
    fn a_flipped_byte_is_an_error_or_other_records_but_never_a_panic(
        records in proptest::collection::vec(record(), 1..6),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let entries: Vec<Entry> = records.into_iter().map(entry).collect();
        let mut noise = bytes(&entries);
        let at = at.index(noise.len());
        noise[at] = value;
        let _ = parse(&noise);
    }
}

#[test]
fn a_record_of_a_newer_version_is_named_and_not_skipped() {
    let error = parse(b"{\"time\":\"t\",\"record\":\"stepMoved\",\"step\":\"a/x\"}\n").expect_err("unknown");
    assert_eq!(error, ParseError::Newer { line: 1, record: "stepMoved".to_owned() });
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.jsonl");
    std::fs::write(&path, "{\"time\":\"t\",\"record\":\"stepMoved\"}\n").expect("written");
    let error = Journal::open(&path).expect_err("unknown");
    assert!(matches!(error, EngineError::JournalNewer { .. }), "{error}");
    assert_eq!(error.exit_code(), ExitCode::PlanMismatch);
}

/// A host of an earlier run may have said so: its states are lines of the journal.
#[test]
fn a_line_of_very_many_values_is_refused_before_it_takes_the_memory() {
    let record = Record::StepPrepared { step: step("x"), sequence: 1, before: vec![found("x")] };
    let line = bytes(&[entry(record)]);
    let many = vec![r#"{"":0}"#; 1 << 20].join(",");
    let text = String::from_utf8(line.clone()).expect("JSON").replace("\"x\"", &format!("[{many}]"));
    let refused = parse(&[line, text.into_bytes()].concat());
    assert!(
        matches!(&refused, Err(ParseError::Damaged { line: 2, reason }) if reason.contains("512 MiB")),
        "{refused:?}"
    );
}

#[test]
fn a_torn_last_line_is_cut_off_the_file_so_that_the_next_record_stands_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.jsonl");
    let (mut journal, entries) = Journal::open(&path).expect("a new journal");
    assert!(entries.is_empty());
    journal.append(&entry(started())).expect("appended");
    drop(journal);
    let mut torn = std::fs::read(&path).expect("bytes");
    torn.extend_from_slice(b"{\"time\":\"2026-01-01T00:00:00Z\",\"record\":\"inter");
    std::fs::write(&path, torn).expect("written");
    let (mut journal, entries) = Journal::open(&path).expect("fixed");
    assert_eq!(entries, [entry(started())]);
    journal.append(&entry(Record::Interrupted)).expect("appended");
    assert_eq!(Journal::read(&path).expect("whole"), [entry(started()), entry(Record::Interrupted)]);
}

#[test]
fn an_impossible_sequence_of_records_is_an_error() {
    let done = || Record::StepDone { step: step("x"), duration_ms: 1 };
    let prepared = |sequence| Record::StepPrepared { step: step("x"), sequence, before: vec![found("1")] };
    let satisfied = || Record::StepSatisfied { step: step("x"), duration_ms: 1 };
    let ended = |outcome| Record::RunEnded { outcome };
    let run = || Scope::Run;
    let began = |steps: &[&str]| Record::UndoBegan {
        scope: run(),
        why: "a test".to_owned(),
        steps: steps.iter().map(|name| step(name)).collect(),
    };
    let wave = |wave| Record::WaveDone { step: step("x"), wave };
    let back = || Record::UndoEnded { scope: run(), end: UndoEnd::RolledBack };
    let illegal: [(&str, Vec<Record>); 17] = [
        ("an undo of what was not changed", vec![started(), began(&["x"])]),
        ("a wave outside an undo", vec![started(), prepared(1), done(), wave(Wave::Stop)]),
        ("a wave of a step that was not announced", vec![started(), prepared(1), began(&[]), wave(Wave::Stop)]),
        ("a wave twice", vec![started(), prepared(1), began(&["x"]), wave(Wave::Data), wave(Wave::Stop)]),
        ("rolled back with a step left", vec![started(), prepared(1), began(&["x"]), wave(Wave::Data), back()]),
        ("continuing after a rollback", vec![started(), began(&[]), back(), Record::Resumed { tool: "t".to_owned() }]),
        ("a change during a rollback", vec![started(), began(&[]), prepared(1)]),
        ("partial with no host left out", vec![started(), ended(Ended::Partial)]),
        ("a step before the start", vec![satisfied()]),
        ("two starts", vec![started(), started()]),
        ("done without being prepared", vec![started(), done()]),
        ("prepared twice in one attempt", vec![started(), prepared(1), prepared(1)]),
        ("a number out of order", vec![started(), prepared(2)]),
        ("satisfied after done", vec![started(), prepared(1), done(), satisfied()]),
        ("success over a half-changed step", vec![started(), prepared(1), ended(Ended::Succeeded)]),
        ("a step after the end", vec![started(), ended(Ended::Succeeded), satisfied()]),
        (
            "blocked on a step that did not fail",
            vec![started(), Record::StepBlocked { step: step("y"), on: step("x") }],
        ),
    ];
    for (what, records) in illegal {
        let entries: Vec<Entry> = records.into_iter().map(entry).collect();
        let (line, _) = Replay::of(&entries).expect_err(what);
        assert_eq!(line, entries.len(), "{what}");
    }
}

#[test]
fn a_later_before_state_never_replaces_the_first() {
    let prepared = |text: &str| Record::StepPrepared { step: step("x"), sequence: 1, before: vec![found(text)] };
    let resumed = Record::Resumed { tool: "test".to_owned() };
    let entries: Vec<Entry> =
        [started(), prepared("original"), resumed, prepared("half changed")].into_iter().map(entry).collect();
    let replay = Replay::of(&entries).expect("legal");
    assert_eq!(replay.step(&step("x")).before, Some((1, vec![found("original")])));
}

#[test]
fn parts_of_a_reset_are_described_in_words() {
    let aside =
        Reset::MoveStateAside { paths: vec!["/etc/kubernetes".to_owned()], spared: [].into(), moved: [].into() };
    let described = |reset: Reset| kubexm_engine::status::describe(&Op::from(reset));
    assert_eq!(described(aside), "set aside /etc/kubernetes");
    let swap = Op::from(SwapOff {});
    assert_eq!(described(Reset::Reverted { ops: vec![swap], before: Vec::new() }), "as found before: swapOff");
    assert!(described(Reset::NetworkCleared).contains("no link, rule or set"));
}

#[test]
fn the_time_of_a_change_stays_that_of_the_change_when_a_resumed_run_finds_it_in_place() {
    let done = step("os.swap");
    let resumed = Record::Resumed { tool: "test".to_owned() };
    let entries = [
        started(),
        Record::StepPrepared { step: done.clone(), sequence: 1, before: vec![found("on")] },
        Record::StepDone { step: done.clone(), duration_ms: 40_825 },
        Record::Interrupted,
        resumed,
        Record::StepSatisfied { step: done.clone(), duration_ms: 2 },
        Record::StepSatisfied { step: step("os.modules"), duration_ms: 3 },
    ]
    .map(entry);
    let replay = Replay::of(&entries).expect("legal");
    assert_eq!(replay.step(&done).duration_ms, Some(40_825));
    assert_eq!(replay.step(&step("os.modules")).duration_ms, Some(3));
}

#[test]
fn a_tail_of_unwritten_pages_is_cut_off_and_zeros_before_a_synced_record_are_not() {
    let held = |n: u32| entry(Record::StepSatisfied { step: StepId(format!("n1/step-{n}")), duration_ms: 1 });
    // The power went before the last record was synced: of what came before it since the last sync, some pages are zeros.
    let (first, last) = (started(), Record::Interrupted);
    let mut text = bytes(&[entry(first.clone()), held(1), held(2), held(3), entry(last)]);
    let synced = bytes(&[entry(first.clone())]).len();
    text[synced + 10..synced + 50].fill(0);
    let parsed = parse(&text).expect("cut off");
    assert_eq!((parsed.entries, parsed.whole), (vec![entry(first.clone())], synced as u64));
    // A record that is synced on its own comes after the zeros and is not the last: the disk is damaged.
    let mut text = bytes(&[entry(first), held(1), entry(Record::Interrupted), held(2)]);
    text[synced + 10..synced + 50].fill(0);
    assert!(matches!(parse(&text), Err(ParseError::Damaged { line: 2, .. })));
}
