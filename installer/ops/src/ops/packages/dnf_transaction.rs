//! The planned transaction of dnf or yum, parsed from the table that `--assumeno` prints.

use std::collections::BTreeMap;

/// A heading that shows that the table was printed.
pub(super) const SUMMARY: &str = "Transaction Summary";

/// Packages of a transaction by name, with their versions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DnfTransaction {
    /// Packages that are installed, upgraded or reinstalled.
    pub comes: BTreeMap<String, String>,
    /// Packages that are removed, downgraded, or obsoleted by another one.
    pub leaves: BTreeMap<String, String>,
}

impl DnfTransaction {
    /// Rows are ` NAME ARCH VERSION REPOSITORY SIZE` below a title that ends with a colon; a row that is too long
    /// continues on the next line, with more indentation. Obsoleted packages are listed below the one that obsoletes
    /// them.
    pub(super) fn read(said: &str) -> Self {
        let mut reported = Self::default();
        let mut title = None;
        let mut row: Vec<&str> = Vec::new();
        for line in said.lines() {
            let deep = line.len() - line.trim_start().len();
            match deep {
                0 => {
                    reported.add(title, &row);
                    row.clear();
                    title = line.strip_suffix(':');
                }
                1 => {
                    reported.add(title, &row);
                    row = line.split_whitespace().collect();
                }
                _ => match line.trim_start().strip_prefix("replacing ") {
                    Some(replaced) => reported.replaced(replaced),
                    None => row.extend(line.split_whitespace()),
                },
            }
            if line == SUMMARY {
                break;
            }
        }
        reported
    }

    fn add(&mut self, title: Option<&str>, row: &[&str]) {
        let (Some(title), [name, _, version, ..]) = (title, row) else { return };
        let starts = |words: &[&str]| words.iter().any(|word| title.starts_with(word));
        // yum prints "Updating".
        if starts(&["Installing", "Upgrading", "Updating", "Reinstalling"]) {
            self.comes.insert((*name).to_owned(), (*version).to_owned());
        } else if starts(&["Removing", "Downgrading"]) {
            self.leaves.insert((*name).to_owned(), (*version).to_owned());
        }
    }

    /// `NAME.ARCH VERSION`
    fn replaced(&mut self, words: &str) {
        let mut words = words.split_whitespace();
        let (Some(full), version) = (words.next(), words.next().unwrap_or_default()) else { return };
        let name = full.rsplit_once('.').map_or(full, |(name, _)| name);
        self.leaves.insert(name.to_owned(), version.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_whatever_its_rows_width_and_what_stands_around_it() {
        let said = "Last metadata expiration check: 0:00:01 ago.\nDependencies resolved.\n================\n \
                    Package   Arch   Version   Repository   Size\n================\nInstalling:\n new-clock   noarch   1-1   kubexm   6.2 k\n     \
                    replacing  older-clock.noarch 0:1-1\n a-package-with-a-very-long-name-that-takes-the-line\n             x86_64   \
                    2:1.0-1   kubexm   6.2 k\nUpgrading:\n lib   noarch   2-1   kubexm   1 k\nInstalling dependencies:\n more   noarch   1-1   \
                    kubexm   1 k\nRemoving dependent packages:\n user   noarch   3-1   @System   0  \n\nTransaction Summary\n================\n\
                    Install  2 Packages\n\nTotal size: 1 k\nOperation aborted.\n";
        let reported = DnfTransaction::read(said);
        let of =
            |map: &BTreeMap<String, String>| map.iter().map(|(n, v)| format!("{n} {v}")).collect::<Vec<_>>().join(", ");
        assert_eq!(
            of(&reported.comes),
            "a-package-with-a-very-long-name-that-takes-the-line 2:1.0-1, lib 2-1, more 1-1, new-clock 1-1"
        );
        assert_eq!(of(&reported.leaves), "older-clock 0:1-1, user 3-1");
    }
}
