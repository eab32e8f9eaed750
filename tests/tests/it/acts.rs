//! Everything that is not converged to, and everything that cannot be rolled back: the whole list over all samples and
//! pipelines, and `docs/acts.md`, which has a reviewed line for each.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot set itself up has failed")]

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::{Op, Pipeline, Plan, Step, Undo};
use kubexm_tests::laws::{Case, Simulated};
use kubexm_tests::samples::{FLEETS, SAMPLES};

const DOCUMENT: &str = include_str!("../../../docs/acts.md");

/// An act of a step, or an act that takes a step back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    act: String,
    step: String,
    undo: String,
}

/// A step with an end that stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Final {
    step: String,
    why: String,
}

#[derive(Default)]
struct List {
    acts: BTreeMap<Entry, BTreeSet<Pipeline>>,
    finals: BTreeMap<Final, BTreeSet<Pipeline>>,
}

fn undo(undo: &Undo) -> String {
    match undo {
        Undo::Act { act } => act.title().to_owned(),
        Undo::RestoreBefore => "restore before".to_owned(),
        Undo::WithParent { step } => format!("with {}", step.0.rsplit('/').next().unwrap_or_default()),
        Undo::Irreversible { .. } => "irreversible".to_owned(),
        Undo::Nothing => "nothing".to_owned(),
    }
}

/// `join.register-<node>`: without the host it runs on and the name of the node it is about.
fn name(step: &Step, plan: &Plan) -> String {
    let name = step.id.0.split_once('/').map_or(step.id.0.as_str(), |(_, name)| name);
    let about = plan.hosts.iter().find_map(|host| name.strip_suffix(&format!("-{}", host.name)));
    about.map_or_else(|| name.to_owned(), |base| format!("{base}-<node>"))
}

impl List {
    fn add(&mut self, pipeline: Pipeline, plan: &Plan) {
        for step in &plan.steps {
            let (name, undo) = (name(step, plan), undo(&step.undo));
            let acts = step.ops.iter().filter_map(|op| if let Op::Act(act) = op { Some(act.title()) } else { None });
            for act in acts {
                let entry = Entry { act: act.to_owned(), step: name.clone(), undo: undo.clone() };
                self.acts.entry(entry).or_default().insert(pipeline);
            }
            if let Undo::Act { act } = &step.undo {
                let entry =
                    Entry { act: act.title().to_owned(), step: format!("undo of {name}"), undo: "none".to_owned() };
                self.acts.entry(entry).or_default().insert(pipeline);
            }
            let deletes = step.ops.iter().any(|op| matches!(op, Op::Reset(reset) if reset.forgets()));
            let why = match &step.undo {
                Undo::Irreversible { why } => why.clone(),
                _ if deletes => panic!("{} deletes for good, and its undo does not say so", step.id),
                _ => continue,
            };
            self.finals.entry(Final { step: name, why }).or_default().insert(pipeline);
        }
    }

    fn render(&self) -> String {
        let of = |pipelines: &BTreeSet<Pipeline>| {
            let names: Vec<String> = pipelines.iter().map(ToString::to_string).collect();
            names.join(", ")
        };
        let mut text = String::from("acts\n");
        for (Entry { act, step, undo }, pipelines) in &self.acts {
            let row = reviewed().into_iter().find(|row| row.entry.act == *act && row.entry.step == *step);
            let (done, partial) = row.map_or_else(Default::default, |row| (row.done, row.partial));
            let of = of(pipelines);
            text.push_str(&format!(
                "\n{act}: {step} ({of})\n  undo: {undo}\n  done: {done}\n  clear_partial: {partial}\n"
            ));
        }
        text.push_str("\nirreversible\n");
        for (Final { step, why }, pipelines) in &self.finals {
            text.push_str(&format!("\n{step} ({}): {why}\n", of(pipelines)));
        }
        text
    }
}

async fn list() -> List {
    let mut list = List::default();
    for sample in SAMPLES.iter().chain(&FLEETS) {
        for pipeline in Pipeline::ALL.iter().copied().filter(|pipeline| sample.is_for(*pipeline)) {
            list.add(pipeline, Case::<Simulated>::of(sample, pipeline).await.expect("a case").plan());
        }
    }
    list
}

/// A line of the document's first table.
struct Reviewed {
    entry: Entry,
    why_not_converged: String,
    done: String,
    partial: String,
    rolled_back: String,
}

/// The cells of every line of the table below a heading.
fn table(heading: &str) -> Vec<Vec<String>> {
    let (_, section) = DOCUMENT.split_once(&format!("\n## {heading}\n")).expect("docs/acts.md has the heading");
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cell = |cell: &str| cell.trim().trim_matches('`').to_owned();
    lines.map(|line| line.trim_matches('|').split(" | ").map(cell).collect()).collect()
}

fn reviewed() -> Vec<Reviewed> {
    let rows = table("Acts").into_iter().map(|cells| {
        let [act, step, undo, why_not_converged, done, partial, rolled_back] =
            <[String; 7]>::try_from(cells).unwrap_or_else(|cells| panic!("seven cells are wanted: {cells:?}"));
        Reviewed { entry: Entry { act, step, undo }, why_not_converged, done, partial, rolled_back }
    });
    rows.collect()
}

#[tokio::test]
async fn every_act_and_every_irreversible_step_is_on_the_reviewed_list_and_nothing_else_is() {
    let list = list().await;
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("acts", list.render()));
    the_document_names_exactly(list);
}

fn the_document_names_exactly(list: List) {
    let planned: BTreeSet<Entry> = list.acts.into_keys().collect();
    let reported: Vec<Reviewed> = reviewed();
    let named: BTreeSet<Entry> = reported.iter().map(|row| row.entry.clone()).collect();
    assert_eq!(named.len(), reported.len(), "docs/acts.md names an act twice");
    assert_eq!(named, planned, "docs/acts.md (left) and the plans (right) do not have the same acts");
    for row in &reported {
        for cell in [&row.why_not_converged, &row.done, &row.partial, &row.rolled_back] {
            assert!(cell.len() > 15, "docs/acts.md has an empty cell for {:?}", row.entry);
        }
    }
    let planned: BTreeSet<Final> = list.finals.into_keys().collect();
    let reported: Vec<[String; 3]> = table("Irreversible steps")
        .into_iter()
        .map(|cells| cells.try_into().unwrap_or_else(|cells| panic!("three cells are wanted: {cells:?}")))
        .collect();
    let named: BTreeSet<Final> =
        reported.iter().map(|[step, why, _]| Final { step: step.clone(), why: why.clone() }).collect();
    assert_eq!(named, planned, "docs/acts.md (left) and the plans (right) do not have the same irreversible steps");
    assert!(reported.iter().all(|[_, _, review]| review.len() > 40), "an irreversible step has no review");
}
