//! What is found, one thing after the other.

use std::collections::BTreeMap;

use kubexm_spec::one_line;
use serde::Serialize;

/// How something of a running cluster is to cluster.yaml and the bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// An adoption would be wrong: it is refused.
    InTheWay,
    /// It is something else than cluster.yaml or the bundle says, and kept.
    Differs,
    /// It could not be compared, and is kept.
    Unknown,
    /// It is what cluster.yaml or the bundle says.
    Known,
}

/// One thing of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdoptionItem {
    pub verdict: Verdict,
    /// Name in cluster.yaml; none if it is about the whole cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `pod network`.
    pub what: &'static str,
    /// In the cluster, or why that is not known.
    pub found: String,
    /// In cluster.yaml or in the bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// What can be done, if it is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Collects items.
#[derive(Default)]
pub(super) struct Items(Vec<AdoptionItem>);

/// Most items of a kind and a verdict. What hosts say must not push all else out of sight.
const MOST: usize = 40;
/// Most characters of what was found.
const LONGEST: usize = 400;
/// The same of what can be done: lines for cluster.yaml with the endpoints of an etcd of several members.
const LONGEST_FIX: usize = 1_200;

impl Items {
    /// What is in the way first; of many of one kind the first ones, and long texts cut.
    pub(super) fn shown(self) -> Vec<AdoptionItem> {
        let (mut shown, mut counted) = (Vec::new(), BTreeMap::<(Verdict, &str), usize>::new());
        for mut item in self.0 {
            let count = counted.entry((item.verdict, item.what)).or_default();
            *count += 1;
            if *count <= MOST {
                // What hosts say begins no line of its own.
                item.found = cut(&one_line(&item.found), LONGEST);
                item.fix = item.fix.as_deref().map(|fix| cut(&one_line(fix), LONGEST_FIX));
                shown.push(item);
            }
        }
        let more = counted.into_iter().filter(|(_, count)| *count > MOST);
        shown.extend(more.map(|((verdict, what), count)| AdoptionItem {
            verdict,
            host: None,
            what,
            found: format!("{} more like these", count - MOST),
            wanted: None,
            fix: None,
        }));
        shown.sort_by_key(|item| item.verdict);
        shown
    }

    pub(super) fn add(&mut self, verdict: Verdict, host: Option<&str>, what: &'static str, found: impl Into<String>) {
        let host = host.map(str::to_owned);
        self.0.push(AdoptionItem { verdict, host, what, found: found.into(), wanted: None, fix: None });
    }

    pub(super) fn unknown(&mut self, host: Option<&str>, what: &'static str, found: impl Into<String>) {
        self.add(Verdict::Unknown, host, what, found);
    }

    pub(super) fn in_the_way(
        &mut self,
        host: Option<&str>,
        what: &'static str,
        (found, wanted): (impl Into<String>, Option<String>),
        fix: impl Into<String>,
    ) {
        self.add(Verdict::InTheWay, host, what, found);
        if let Some(last) = self.0.last_mut() {
            (last.wanted, last.fix) = (wanted, Some(fix.into()));
        }
    }

    /// Known if both are the same; else it differs.
    pub(super) fn compared(&mut self, host: Option<&str>, what: &'static str, found: &str, wanted: &str) {
        let verdict = if found == wanted { Verdict::Known } else { Verdict::Differs };
        self.add(verdict, host, what, if found.is_empty() { "none" } else { found });
        if let Some(last) = self.0.last_mut() {
            last.wanted = Some(wanted.to_owned());
        }
    }

    /// Known if both are the same; else in the way.
    pub(super) fn kept(
        &mut self,
        host: Option<&str>,
        what: &'static str,
        (found, wanted): (&str, &str),
        fix: impl Into<String>,
    ) {
        if found == wanted {
            return self.compared(host, what, found, wanted);
        }
        let found = if found.is_empty() { "none" } else { found };
        self.in_the_way(host, what, (found, Some(wanted.to_owned())), fix);
    }
}

fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}...", text.split_at(at).0),
    }
}
