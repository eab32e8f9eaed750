//! Rules and tables of routes that a network adds to a host, and programs that it attaches to links as filters of `tc`.

use kubexm_plan::network::{self, MarkedRules, NetworkTraits};

use super::aside::own_networks;
use super::has_program;
use crate::system::Program;
use crate::{Machine, OpError};

/// Both families: the options of `ip`.
const FAMILIES: [&str; 2] = ["-4", "-6"];
/// The kernel's rule of local addresses has this preference, and looks up the table `local`.
const LOCAL: &str = "local";

/// A rule of routing that a network has added.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    family: &'static str,
    preference: u32,
    table: String,
    /// It stands for the kernel's own, which is missing.
    instead: bool,
}

impl Rule {
    /// For people.
    pub(super) fn text(&self) -> String {
        format!("rule {} {} of table {}", self.family.trim_start_matches('-'), self.preference, self.table)
    }
}

/// A filter at one side of a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filter {
    link: String,
    side: &'static str,
    preference: String,
    /// For people.
    pub(super) program: String,
}

/// The rules that exist.
pub(super) fn rules(machine: &Machine) -> Result<Vec<Rule>, OpError> {
    let own = own_networks(machine);
    let mut found = Vec::new();
    for family in FAMILIES {
        // A kernel without the family has no rules of it.
        let listed = machine.try_run(&Program::new("ip").args([family, "rule", "show"]))?;
        if listed.code == 0 {
            found.extend(rules_in(&listed.stdout(), family, &own));
        }
    }
    Ok(found)
}

fn rules_in(listed: &str, family: &'static str, own: &[&NetworkTraits]) -> Vec<Rule> {
    // `100:	from all lookup local proto kernel`
    let read = |line: &str| {
        let (preference, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let after = |name: &str| words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1].to_owned());
        Some((preference.trim().parse::<u32>().ok()?, after("lookup")?, after("fwmark")))
    };
    let all: Vec<(u32, String, Option<String>)> = listed.lines().filter_map(read).collect();
    let instead = !all.iter().any(|(preference, table, _)| *preference == 0 && table == LOCAL);
    let is_ours = |preference: u32, table: &str, mark: Option<&str>| {
        own.iter().any(|network| {
            network.route_tables.iter().any(|own| own.to_string() == table)
                || (table == LOCAL && network.local_rule == Some(preference))
                || network.marked_rules.is_some_and(|rules| is_marked(rules, table, mark))
        })
    };
    let ours = all.into_iter().filter(|(preference, table, mark)| is_ours(*preference, table, mark.as_deref()));
    ours.map(|(preference, table, _)| Rule { family, preference, instead: instead && table == LOCAL, table }).collect()
}

/// `fwmark 0/0x4040 lookup 10000`: none of these bits.
fn is_marked(rules: MarkedRules, table: &str, mark: Option<&str>) -> bool {
    let (lowest, highest) = rules.tables;
    let is_of_table = table.parse().is_ok_and(|table: u32| (lowest..=highest).contains(&table));
    let wanted = |mark: &str| ["0", "0x0"].iter().any(|none| mark == format!("{none}/{:#x}", rules.mask));
    is_of_table && mark.is_some_and(wanted)
}

/// Removes the rules, and the routes of their tables. The kernel's rule of local addresses comes back before the one in its place goes.
pub(super) fn remove_rules(machine: &Machine) -> Result<(), OpError> {
    for Rule { family, preference, table, instead } in rules(machine)? {
        let preference = preference.to_string();
        if instead {
            let add = [family, "rule", "add", "preference", "0", "table", LOCAL, "protocol", "kernel"];
            machine.run(&Program::new("ip").args(add))?;
        }
        machine.run(&Program::new("ip").args([
            family,
            "rule",
            "delete",
            "preference",
            &preference,
            "table",
            &table,
        ]))?;
        if table != LOCAL {
            // A table without routes does not exist.
            machine.try_run(&Program::new("ip").args([family, "route", "flush", "table", &table]))?;
        }
    }
    Ok(())
}

/// The filters that exist, but for those of links that go themselves.
pub(super) fn filters(machine: &Machine, going: &[String]) -> Result<Vec<Filter>, OpError> {
    let mut found = Vec::new();
    if !has_program(machine, "tc") {
        return Ok(found);
    }
    let disciplines = machine.try_run(&Program::new("tc").args(["qdisc", "show"]))?.stdout();
    for link in links_with_filters(&disciplines).filter(|link| !going.iter().any(|other| other == link)) {
        for side in ["ingress", "egress"] {
            let listed = machine.try_run(&Program::new("tc").args(["filter", "show", "dev", link, side]))?;
            found.extend(filters_in(&listed.stdout(), link, side));
        }
    }
    Ok(found)
}

/// `qdisc clsact ffff: dev eth0 parent ffff:fff1`
fn links_with_filters(disciplines: &str) -> impl Iterator<Item = &str> {
    let lines = disciplines.lines().filter(|line| line.starts_with("qdisc clsact "));
    lines.filter_map(|line| line.split_whitespace().skip_while(|word| *word != "dev").nth(1))
}

/// `filter protocol all pref 1 bpf chain 0 handle 0x1 cil_from_netdev-eth0 direct-action not_in_hw id 71 …`
fn filters_in(listed: &str, link: &str, side: &'static str) -> Vec<Filter> {
    let prefixes = || network::any().flat_map(|network| network.filters);
    let read = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let program = words.iter().find(|word| prefixes().any(|prefix| word.starts_with(prefix)))?;
        let preference = words.windows(2).find(|pair| pair[0] == "pref")?[1].to_owned();
        Some(Filter { link: link.to_owned(), side, preference, program: (*program).to_owned() })
    };
    listed.lines().filter(|line| line.starts_with("filter ")).filter_map(read).collect()
}

/// Removes the filters, and what holds filters of a link where none is left.
pub(super) fn remove_filters(machine: &Machine, going: &[String]) -> Result<(), OpError> {
    let all = filters(machine, going)?;
    for Filter { link, side, preference, .. } in &all {
        machine.run(&Program::new("tc").args(["filter", "delete", "dev", link, side, "preference", preference]))?;
    }
    let mut links: Vec<&String> = all.iter().map(|filter| &filter.link).collect();
    links.dedup();
    for link in links {
        let left = ["ingress", "egress"].into_iter().try_fold(false, |left, side| {
            let listed = machine.try_run(&Program::new("tc").args(["filter", "show", "dev", link, side]))?;
            Ok::<_, OpError>(left || listed.code != 0 || !listed.stdout().trim().is_empty())
        })?;
        if !left {
            machine.run(&Program::new("tc").args(["qdisc", "delete", "dev", link, "clsact"]))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOVED: &str = "9:\tfrom all fwmark 0x200/0xf00 lookup 2004 proto kernel\n100:\tfrom all lookup local proto kernel\n\
                         32766:\tfrom all lookup main\n32767:\tfrom all lookup default\n";

    #[test]
    fn rules_of_a_network_and_the_moved_one_of_the_kernel_are_found() {
        let found = rules_in(MOVED, "-4", &network::ALL);
        let texts: Vec<String> = found.iter().map(Rule::text).collect();
        assert_eq!(texts, ["rule 4 9 of table 2004", "rule 4 100 of table local"]);
        assert_eq!(found.iter().map(|rule| rule.instead).collect::<Vec<_>>(), [false, true]);
        // After an interruption both are there.
        let both = format!("0:\tfrom all lookup local\n{MOVED}");
        assert!(rules_in(&both, "-4", &network::ALL).iter().all(|rule| !rule.instead));
    }

    #[test]
    fn rules_of_others_stay() {
        let others = "0:\tfrom all lookup local\n99:\tfrom all lookup local\n100:\tfrom 10.0.0.0/8 lookup 200\n32766:\tfrom all lookup main\n";
        assert_eq!(rules_in(others, "-4", &network::ALL), []);
    }

    #[test]
    fn filters_of_a_network_are_found_and_those_of_others_stay() {
        let disciplines = "qdisc noqueue 0: dev lo root refcnt 2 \nqdisc clsact ffff: dev eth0 parent ffff:fff1 \n";
        assert_eq!(links_with_filters(disciplines).collect::<Vec<_>>(), ["eth0"]);
        let listed = "filter protocol all pref 1 bpf chain 0 \n\
            filter protocol all pref 1 bpf chain 0 handle 0x1 cil_from_netdev-eth0 direct-action not_in_hw id 71 jited \n\
            filter protocol all pref 2 bpf chain 0 handle 0x1 theirs direct-action not_in_hw id 72 jited \n";
        let found = filters_in(listed, "eth0", "ingress");
        assert_eq!(
            found.iter().map(|one| (&*one.program, &*one.preference)).collect::<Vec<_>>(),
            [("cil_from_netdev-eth0", "1")]
        );
    }
}
