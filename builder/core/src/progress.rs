//! The progress of many transfers as one number.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kubexm_spec::Digest;
use kubexm_spec::event::EventKind;

use crate::Report;

/// Bytes of many transfers as one number.
pub struct Total<'a> {
    what: &'static str,
    total: u64,
    done: Mutex<Done>,
    report: Report<'a>,
}

struct Done {
    sum: u64,
    by_blob: HashMap<Digest, u64>,
}

impl<'a> Total<'a> {
    /// A sum that starts with what is there already, and with what earlier runs left of blobs (`begun`): the rate counts only what
    /// arrives from now on.
    pub fn new(what: &'static str, total: u64, already: u64, begun: HashMap<Digest, u64>, report: Report<'a>) -> Self {
        let sum = already + begun.values().sum::<u64>();
        let all = Self { what, total, done: Mutex::new(Done { sum, by_blob: begun }), report };
        all.tell(sum);
        all
    }

    /// Of one blob so many bytes have come. It goes back where a transfer begins again.
    pub fn at(&self, blob: &Digest, bytes: u64) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let before = done.by_blob.insert(*blob, bytes).unwrap_or_default();
        done.sum = (done.sum - before.min(done.sum)) + bytes;
        // Reported while it is locked: sums come in order.
        self.tell(done.sum);
    }

    fn tell(&self, sum: u64) {
        (self.report)(EventKind::Progress {
            what: self.what.to_owned(),
            done: sum.min(self.total),
            total: Some(self.total),
            unit: "bytes".to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use kubexm_spec::Digest;
    use kubexm_spec::event::EventKind;

    use super::Total;

    #[test]
    fn progress_is_the_sum_of_all_blobs_and_decreases_when_a_transfer_restarts() {
        let reported = Mutex::new(Vec::new());
        let report = |kind: EventKind| {
            let EventKind::Progress { done, total: Some(100), .. } = kind else { return };
            reported.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(done);
        };
        let (one, two) = (Digest::of("one"), Digest::of("two"));
        let total = Total::new("fetch", 100, 10, HashMap::from([(one, 5)]), &report);
        total.at(&one, 20);
        total.at(&two, 30);
        total.at(&one, 0);
        total.at(&one, 60);
        assert_eq!(*reported.lock().unwrap_or_else(std::sync::PoisonError::into_inner), [15, 30, 60, 40, 100]);
    }
}
