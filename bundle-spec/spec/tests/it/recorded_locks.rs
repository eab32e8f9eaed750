//! Locks that were written before issue 15, on 22 November 2026, are still read.

use kubexm_spec::lock::Lock;
use serde_json::Value;

const RECORDED: [(&str, &str); 2] = [
    ("small.lock", include_str!("../../../archive/fuzz/corpus/lock/small.lock")),
    ("charts.lock", include_str!("../../../archive/fuzz/corpus/lock/charts.lock")),
];

fn read(text: &str) -> Lock {
    Lock::parse(text.as_bytes()).expect("a lock of an earlier program")
}

/// Programs of that time wrote `sources` also where it was empty; an empty list says the same as none.
fn without_empty_lists(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| name == "items" || value.as_array().is_none_or(|list| !list.is_empty()));
            fields.values_mut().for_each(without_empty_lists);
        }
        Value::Array(values) => values.iter_mut().for_each(without_empty_lists),
        _ => {}
    }
}

/// The recorded files were laid out by another JSON writer: line ends, indents and the order of fields differ from
/// [`Lock::to_text`], then and now. Besides, only empty lists do.
#[test]
fn a_lock_of_an_earlier_program_says_the_same_when_it_is_written_again() {
    for (name, recorded) in RECORDED {
        let text = read(recorded).to_text().expect("JSON");
        let (mut before, after) = (
            serde_json::from_str::<Value>(recorded).expect("JSON"),
            serde_json::from_str::<Value>(&text).expect("JSON"),
        );
        without_empty_lists(&mut before);
        assert_eq!(after, before, "{name}");
        assert_eq!(read(&text).to_text().expect("JSON"), text, "{name} is another text when it is written twice");
    }
}

/// Its bytes are its identity: bundles name the digest of the lock that they were built from.
#[test]
fn the_text_of_a_lock_is_the_same_in_every_version() {
    insta::assert_snapshot!("recorded_small_lock", read(RECORDED[0].1).to_text().expect("JSON"));
    insta::assert_snapshot!("recorded_charts_lock", read(RECORDED[1].1).to_text().expect("JSON"));
}
