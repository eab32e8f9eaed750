//! What a host says was done on it, from which a removal or a rollback is planned.

use kubexm_plan::ledger::{Outcome, Record};

use super::{LONGEST_ERROR, cut, untrusted};
use crate::link::LinkError;

/// Two are written for each step that changes something. A ledger of ten thousand comes of some twenty upgrades.
const MOST_RECORDS: usize = 200_000;
/// Of the name of a run or a step in bytes: a step's has the host's of 253, and what its module puts behind it, such as two names of
/// Kubernetes of 253 each. They are compared with each other, and copied for that.
const LONGEST_NAME: usize = 2_000;

/// What each record means is looked at where something is made of it; that it can be looked at is known from here on.
pub(crate) fn ledger(host: &str, mut records: Vec<Record>) -> Result<Vec<Record>, LinkError> {
    if records.len() > MOST_RECORDS {
        let reason = format!("it reported {} records of its ledger; {MOST_RECORDS} are the most", records.len());
        return Err(untrusted(host, reason));
    }
    for record in &mut records {
        if record.run.len() > LONGEST_NAME || record.step.0.len() > LONGEST_NAME {
            let reason = "the name of a run or a step in the ledger that it reported is longer than any".to_owned();
            return Err(untrusted(host, reason));
        }
        if let Outcome::Failed { text } = &mut record.outcome {
            cut(text, LONGEST_ERROR);
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use kubexm_plan::ledger::SCHEMA;
    use kubexm_plan::{StepId, Undo};

    use super::*;

    fn record(run: usize, step: usize, failed: usize) -> Record {
        Record {
            schema: SCHEMA,
            run: "r".repeat(run),
            sequence: 1,
            step: StepId("s".repeat(step)),
            ops: Vec::new(),
            undo: Undo::Nothing,
            before: Vec::new(),
            outcome: Outcome::Failed { text: "x".repeat(failed) },
        }
    }

    #[test]
    fn a_ledger_that_no_host_has_is_refused_and_an_endless_error_in_it_is_cut_off() {
        let good = vec![record(21, 20, 1); MOST_RECORDS];
        assert_eq!(ledger("a", good.clone()).expect("as large as it can be"), good);
        let many = [good, vec![record(21, 20, 1)]].concat();
        for bad in [many, vec![record(LONGEST_NAME + 1, 20, 1)], vec![record(21, LONGEST_NAME + 1, 1)]] {
            let error = ledger("a", bad).expect_err("a lie").to_string();
            assert!(error.starts_with("a: ") && error.len() < 200, "{error}");
        }
        let cut = ledger("a", vec![record(21, 20, 1 << 20)]).expect("one record");
        let Outcome::Failed { text } = &cut[0].outcome else { unreachable!("it failed") };
        assert!(text.len() < LONGEST_ERROR + 10, "{}", text.len());
    }
}
