//! The progress of many transfers as one number.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kubexm_spec::event::EventKind;
use kubexm_spec::lock::LockItem;

use crate::Report;

/// Bytes of many transfers as one number.
pub struct Total<'a> {
    what: &'static str,
    total: u64,
    done: Mutex<HashMap<String, u64>>,
    report: Report<'a>,
}

impl<'a> Total<'a> {
    /// A sum that begins at nothing.
    pub fn new(what: &'static str, total: u64, report: Report<'a>) -> Self {
        Self { what, total, done: Mutex::default(), report }
    }

    /// One transfer has come so far (bytes).
    pub fn at(&self, transfer: &str, bytes: u64) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.insert(transfer.to_owned(), bytes);
        let sum = done.values().sum::<u64>().min(self.total);
        drop(done);
        (self.report)(EventKind::Progress {
            what: self.what.to_owned(),
            done: sum,
            total: Some(self.total),
            unit: "bytes".to_owned(),
        });
    }

    /// A transfer that stood for several blobs is over.
    pub fn forget(&self, transfer: &str) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).remove(transfer);
    }

    /// Every blob of an item is there, however it came.
    pub fn item_done(&self, item: &LockItem) {
        for (digest, size) in item.blobs() {
            self.at(&digest.hex(), size);
        }
    }
}
