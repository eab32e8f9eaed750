//! What a member of an etcd of kubexm's has written down since it was healthy once ([`FORMED`](kubexm_plan::etcd::FORMED)): a text of lines.
//!
//! The cluster's id; etcd's version; the folder of its data where that is not the usual one; and once members have been added or removed,
//! with which ones this member has started. etcd reads those at its first start alone: its configuration keeps them, so that it is not
//! restarted for something that it ignores.

use kubexm_plan::Facts;
use kubexm_spec::cluster::Etcd;

/// The line with the members.
const STARTED: &str = "started ";

/// With which members one has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedWith {
    /// etcd's `initial-cluster-state`: `new` or `existing`.
    pub state: String,
    /// etcd's `initial-cluster`: `a=https://10.0.0.11:2380,b=https://10.0.0.12:2380`.
    pub members: String,
}

/// The text's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formed {
    /// Of the cluster.
    pub id: String,
    /// Of etcd.
    pub version: String,
    /// Of its data, where it is not the usual one.
    pub folder: Option<String>,
    /// None as long as these are the members of cluster.yaml.
    pub started: Option<StartedWith>,
}

impl Formed {
    /// None of a host whose member was never healthy.
    pub fn of(facts: &Facts) -> Option<Self> {
        let mut lines = facts.etcd_formed.as_deref()?.lines();
        let mut next = || lines.next().unwrap_or_default().to_owned();
        let (id, version) = (next(), next());
        let (mut folder, mut started) = (None, None);
        for line in lines {
            match line.strip_prefix(STARTED).and_then(|rest| rest.split_once(' ')) {
                Some((state, members)) => {
                    started = Some(StartedWith { state: state.to_owned(), members: members.to_owned() });
                }
                None if line.starts_with('/') => folder = Some(line.to_owned()),
                None => {}
            }
        }
        Some(Self { id, version, folder, started })
    }

    /// Where its data is.
    pub fn data_dir(&self) -> &str {
        self.folder.as_deref().unwrap_or(Etcd::DATA_DIR)
    }

    /// The text.
    pub fn text(&self) -> String {
        let folder = self.folder.iter().map(|folder| format!("{folder}\n"));
        let started = self.started.iter().map(|StartedWith { state, members }| format!("{STARTED}{state} {members}\n"));
        format!("{}\n{}\n", self.id, self.version) + &folder.chain(started).collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_it_was_written() {
        let started = StartedWith { state: "existing".to_owned(), members: "a=https://10.0.0.1:2380".to_owned() };
        for folder in [None, Some("/srv/etcd".to_owned())] {
            for started in [None, Some(started.clone())] {
                let formed =
                    Formed { id: "7".to_owned(), version: "3.6.5".to_owned(), folder: folder.clone(), started };
                let facts = Facts { etcd_formed: Some(formed.text()), ..crate::sample::facts("etcd1", 1) };
                assert_eq!(Formed::of(&facts), Some(formed));
            }
        }
    }

    #[test]
    fn the_text_of_earlier_programs_is_the_same() {
        let facts = Facts { etcd_formed: Some("7\n3.6.5\n".to_owned()), ..crate::sample::facts("etcd1", 1) };
        let formed = Formed::of(&facts).unwrap();
        assert_eq!((formed.text().as_str(), formed.data_dir()), ("7\n3.6.5\n", Etcd::DATA_DIR));
    }
}
