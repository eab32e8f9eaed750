//! Everything that is not converged to, and everything that cannot be rolled back: `docs/acts.md` has a reviewed line for
//! each, over all samples and pipelines.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot set itself up has failed")]

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::op::{Act, Review};
use kubexm_plan::{Op, Pipeline, Plan, Step, Undo};
use kubexm_recipes::{EtcdData, ResetContext, ResetHost};
use kubexm_spec::cluster::Roles;
use kubexm_tests::laws::{Case, Simulated};
use kubexm_tests::samples::{FLEETS, SAMPLES};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/acts.md");

/// An act of a step, or an act that rolls a step back.
struct Entry {
    review: Review,
    /// Its steps, each with the pipelines that have it.
    steps: BTreeMap<String, BTreeSet<Pipeline>>,
}

/// A step with an end that stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Final {
    step: String,
    why: String,
}

#[derive(Default)]
struct List {
    /// By their titles.
    acts: BTreeMap<&'static str, Entry>,
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
            let name = name(step, plan);
            let acts = step.ops.iter().filter_map(|op| if let Op::Act(act) = op { Some(act) } else { None });
            acts.for_each(|act| self.add_act(act, format!("`{name}` (undo: {})", undo(&step.undo)), pipeline));
            if let Undo::Act { act } = &step.undo {
                self.add_act(act, format!("undo of `{name}`"), pipeline);
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

    fn add_act(&mut self, act: &Act, step: String, pipeline: Pipeline) {
        let review = act.review();
        let entry = self.acts.entry(act.title()).or_insert_with(|| Entry { review, steps: BTreeMap::new() });
        assert_eq!(entry.review, review, "two acts are called {:?}", act.title());
        entry.steps.entry(step).or_default().insert(pipeline);
    }

    /// The document's table of acts.
    fn table(&self) -> String {
        let mut table = String::from(
            "| act | steps, their undo, the pipelines | why it is not a desired state | done if | half done | rollback |\n\
             |---|---|---|---|---|---|\n",
        );
        for (title, Entry { review, steps }) in &self.acts {
            let Review { not_a_state, done, half_done, rollback } = review;
            for cell in [not_a_state, done, half_done, rollback] {
                assert!(cell.len() > 15 && !cell.contains('|') && !cell.contains("  "), "{title}: {cell:?}");
            }
            let steps: Vec<String> = steps.iter().map(|(step, of)| format!("{step}: {}", names(of))).collect();
            let steps = steps.join("; ");
            table.push_str(&format!("| `{title}` | {steps} | {not_a_state} | {done} | {half_done} | {rollback} |\n"));
        }
        table
    }
}

fn names(pipelines: &BTreeSet<Pipeline>) -> String {
    let names: Vec<String> = pipelines.iter().map(ToString::to_string).collect();
    names.join(", ")
}

async fn list() -> List {
    let mut list = List::default();
    for sample in SAMPLES.iter().chain(&FLEETS) {
        for pipeline in Pipeline::ALL.iter().copied().filter(|pipeline| sample.is_for(*pipeline)) {
            list.add(pipeline, Case::<Simulated>::of(sample, pipeline).await.expect("a case").plan());
        }
    }
    list.add(Pipeline::Reset, &reset_with_keys());
    list
}

/// Of a cluster whose etcd is the user's, which no sample is.
fn reset_with_keys() -> Plan {
    let facts = kubexm_recipes::sample::facts("node1", 11);
    let roles = Roles { control_plane: true, worker: true, etcd: false, registry: false, load_balancer: false };
    let endpoints = vec!["https://10.0.0.5:2379".to_owned()];
    let cx = ResetContext {
        cluster: "demo",
        cluster_id: None,
        cluster_digest: kubexm_spec::Digest::of("yaml"),
        hosts: vec![ResetHost { name: "node1", roles, facts: &facts, ledger: &[] }],
        registry_data: None,
        etcd_data: Some(EtcdData { host: "node1", endpoints, prefix: "/registry", keys: 7 }),
    };
    kubexm_recipes::reset(&cx).expect("a plan")
}

/// A section of the document: where its text begins, and where it ends.
fn section(document: &str, heading: &str) -> (usize, usize) {
    let heading = format!("\n## {heading}\n");
    let start = document.find(&heading).expect("docs/acts.md has the heading") + heading.len();
    (start, document[start..].find("\n## ").map_or(document.len(), |length| start + length))
}

/// The cells of every line of the table in a section.
fn table(section: &str) -> Vec<Vec<String>> {
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cell = |cell: &str| cell.trim().trim_matches('`').to_owned();
    lines.map(|line| line.trim_matches('|').split(" | ").map(cell).collect()).collect()
}

/// The table of acts is written from the plans and from what each act says of itself; as snapshots are, with
/// `INSTA_UPDATE=always`.
#[tokio::test]
async fn the_document_has_every_act_and_every_irreversible_step_of_every_plan() {
    let list = list().await;
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/acts.md");
    let (start, end) = section(&document, "Acts");
    let before_table = document[start..end].find("\n| ").map_or(end, |length| start + length + 1);
    let written = format!("{}{}{}", &document[..before_table], list.table(), &document[end..]);
    if written != document && std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(DOCUMENT, &written).expect("docs/acts.md is written");
    } else {
        assert_eq!(
            document, written,
            "docs/acts.md (left) is not what the acts say: run this test with INSTA_UPDATE=always"
        );
    }

    let planned: BTreeSet<Final> = list.finals.into_keys().collect();
    let (start, end) = section(&document, "Irreversible steps");
    let reported: Vec<[String; 3]> = table(&document[start..end])
        .into_iter()
        .map(|cells| cells.try_into().unwrap_or_else(|cells| panic!("three cells are wanted: {cells:?}")))
        .collect();
    let named: BTreeSet<Final> =
        reported.iter().map(|[step, why, _]| Final { step: step.clone(), why: why.clone() }).collect();
    assert_eq!(named, planned, "docs/acts.md (left) and the plans (right) do not have the same irreversible steps");
    assert!(reported.iter().all(|[_, _, review]| review.len() > 40), "an irreversible step has no review");
}
