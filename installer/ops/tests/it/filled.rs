//! Texts with the values of slots in them.

use std::collections::BTreeMap;

use kubexm_ops::system::Program;
use kubexm_ops::{Machine, dispatch};
use kubexm_plan::op::{Content, File};
use kubexm_plan::{Op, SlotName, Texts};
use kubexm_spec::Digest;

use crate::common::Host;

const TEXT: &str = "# {{slot:b}}\nuser: {{slot:a}}\nuser: {{slot:a}}\n";

fn satisfied(op: &Op, machine: &Machine) -> bool {
    dispatch::observe(op, machine).expect("observe").satisfied
}

fn filled(text: &str) -> Op {
    let slots = ["a", "b"].map(|name| SlotName(name.to_owned())).to_vec();
    Op::from(File {
        path: "/etc/key".into(),
        content: Content::Filled { digest: Digest::of(text), slots },
        mode: 0o600,
    })
}

/// A host with a text and these values of slots.
fn machine(host: &Host, text: &str, values: &[(&str, &str)]) -> Machine {
    let values = values.iter().map(|(name, value)| (SlotName((*name).to_owned()), value.as_bytes().to_vec()));
    let texts: Texts = [(Digest::of(text), text.to_owned())].into();
    host.machine.with_texts(texts).with_slots(values.collect::<BTreeMap<_, _>>())
}

#[test]
fn placeholders_are_replaced_once_and_not_inside_of_values() {
    let host = Host::fresh();
    let machine = machine(&host, TEXT, &[("a", "{{slot:b}}"), ("b", "two\nlines")]);
    let op = filled(TEXT);
    assert!(!satisfied(&op, &machine));
    dispatch::converge(&op, &machine).expect("converge");
    let written = std::fs::read_to_string(machine.path("/etc/key")).expect("a file");
    assert_eq!(written, "# two\nlines\nuser: {{slot:b}}\nuser: {{slot:b}}\n");
    assert!(satisfied(&op, &machine));
    let found = dispatch::observe(&op, &machine).expect("observe");
    assert!(!format!("{machine:?}{found:?}").contains("two"), "a state has digests");
}

#[test]
fn placeholders_without_a_value_or_not_listed_by_the_op_are_refused() {
    let host = Host::fresh();
    let without = machine(&host, TEXT, &[("a", "one")]);
    let error = dispatch::converge(&filled(TEXT), &without).expect_err("no value").to_string();
    assert!(error.contains("slot b"), "{error}");
    let other = "{{slot:c}}";
    let error = dispatch::converge(&filled(other), &machine(&host, other, &[])).expect_err("not listed").to_string();
    assert!(error.contains("fault of the plan"), "{error}");
    assert!(!host.machine.path("/etc/key").exists());
}

#[test]
fn what_a_program_quotes_of_a_value_is_not_shown() {
    let value = "users:\n- user:\n    token: \"hunter2hunter2\"\n";
    let values = BTreeMap::from([(SlotName("a".to_owned()), value.as_bytes().to_vec())]);
    let machine = Machine::real().with_slots(values);
    let quote = Program::new("sh").args(["-c", "sed 's/^ *token:/bad token/' >&2; exit 1"]).stdin(value);
    let error = machine.run(&quote).expect_err("it failed").to_string();
    assert!(error.contains("bad token \"(secret)\"") && !error.contains("hunter2"), "{error}");
}
