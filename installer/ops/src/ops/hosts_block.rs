//! kubexm's managed block in /etc/hosts.
//!
//! Debian has `127.0.1.1 <name>` by default, and resolvers use the first match: the node's own name is removed from
//! other lines, whose original text is kept in a comment with kubexm's mark.

use kubexm_plan::op::{Hosts, HostsBlock};

use crate::fsio;
use crate::managed_edit::{self, Edit};
use crate::path_state::{self, Look, PathState};
use crate::{Converge, Machine, OpError, Wave, paths};

const HOSTS: &str = "/etc/hosts";
pub(crate) const BEGIN: &str = "# BEGIN KubeXM Managed Block";
pub(crate) const END: &str = "# END KubeXM Managed Block";

impl Converge for HostsBlock {
    fn observe(&self, machine: &Machine) -> Result<Hosts, OpError> {
        let text = fsio::read_text(&machine.path(HOSTS))?.unwrap_or_default();
        Ok(Hosts { file: PathState::look(machine, HOSTS)?, settled: render(&text, self) == text })
    }

    fn satisfied(&self, found: &Hosts, _: &Machine) -> bool {
        found.settled
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![HOSTS.to_owned()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let text = fsio::read_text(&machine.path(HOSTS))?.unwrap_or_default();
        let access = path_state::access_like(machine, HOSTS, 0o644)?;
        machine.write_file(HOSTS, &fsio::to_bytes(&render(&text, self)), access)
    }

    fn restore(&self, machine: &Machine, before: &Hosts, wave: Wave) -> Result<(), OpError> {
        match wave {
            Wave::Data => managed_edit::restore(machine, &before.file, before.settled, self),
            Wave::Stop | Wave::Start => Ok(()),
        }
    }
}

impl Edit for HostsBlock {
    fn make(&self, text: &str) -> String {
        render(text, self)
    }

    fn bare(&self, text: &str) -> String {
        self.toward(text, "")
    }

    /// Other lines as in `now`, commented out only if `then` had them so, and the block of `then`.
    fn toward(&self, now: &str, then: &str) -> String {
        let (_, had) = parted(then);
        let marked: Vec<&str> = parted(then).0.into_iter().filter(|line| line.starts_with(paths::MARK)).collect();
        let mut out: Vec<String> = Vec::new();
        let mut lines = parted(now).0.into_iter().peekable();
        while let Some(line) = lines.next() {
            if marked.contains(&line) {
                out.push(line.to_owned());
                continue;
            }
            if marked.iter().any(|mark| mark.strip_prefix(paths::MARK) == Some(line)) {
                foreign(line, &self.own_name, &mut out);
                continue;
            }
            let made = line.strip_prefix(paths::MARK).map(|old| {
                let mut made = Vec::new();
                foreign(old, &self.own_name, &mut made);
                (old, made)
            });
            match made {
                // Only lines that kubexm commented out: a user's comment may start with the same words.
                Some((old, made)) if made.first().is_some_and(|first| first == line) => {
                    out.push(old.to_owned());
                    if let Some(rest) = made.get(1) {
                        lines.next_if(|next| next == rest);
                    }
                }
                _ => out.push(line.to_owned()),
            }
        }
        // The last line of the file had no newline, and kubexm's block has given it one.
        let unended =
            had.is_empty() && !then.ends_with('\n') && out.last().map(String::as_str) == lines_of(then).last();
        out.extend(had.into_iter().map(str::to_owned));
        if !unended {
            out.push(String::new());
        }
        out.join("\n")
    }
}

/// Lines without their newline; a carriage return before it stays.
fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').map(|line| line.strip_suffix('\n').unwrap_or(line))
}

/// Lines outside of the block, and the block with its markers.
fn parted(text: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut outside, mut block) = (Vec::new(), Vec::new());
    let mut inside = false;
    let lines: Vec<&str> = lines_of(text).collect();
    for (index, line) in lines.iter().enumerate() {
        match line.trim() {
            // Only if the block has an end marker: otherwise all following lines would be lost.
            BEGIN => {
                let mut marks = lines[index + 1..].iter().map(|line| line.trim()).filter(|l| [BEGIN, END].contains(l));
                inside = marks.next() == Some(END);
                if inside {
                    block.push(*line);
                }
            }
            END if inside => {
                inside = false;
                block.push(*line);
            }
            END => {}
            _ if inside => block.push(*line),
            _ => outside.push(*line),
        }
    }
    (outside, block)
}

/// The desired text. Applying it again changes nothing.
fn render(text: &str, op: &HostsBlock) -> String {
    let mut out: Vec<String> = Vec::new();
    for line in parted(text).0 {
        foreign(line, &op.own_name, &mut out);
    }
    while out.last().is_some_and(|line| line.trim().is_empty()) {
        out.pop();
    }
    out.push(BEGIN.to_owned());
    out.extend(op.lines.iter().cloned());
    out.push(END.to_owned());
    out.push(String::new());
    out.join("\n")
}

fn foreign(line: &str, own: &str, out: &mut Vec<String>) {
    let active = line.split('#').next().unwrap_or_default();
    let mut words = active.split_whitespace();
    let address = words.next();
    let names: Vec<&str> = words.collect();
    let (Some(address), true) = (address, names.iter().any(|name| name.eq_ignore_ascii_case(own))) else {
        out.push(line.to_owned());
        return;
    };
    out.push(format!("{}{line}", paths::MARK));
    let rest: Vec<&str> = names.into_iter().filter(|name| !name.eq_ignore_ascii_case(own)).collect();
    if !rest.is_empty() {
        let end = if line.ends_with('\r') { "\r" } else { "" };
        out.push(format!("{address}\t{}{end}", rest.join(" ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for HostsBlock {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("the hosts block", |_| HostsBlock {
            lines: vec!["10.0.0.5 debian".into()],
            own_name: "debian".into(),
        })]);
    }

    fn op() -> HostsBlock {
        HostsBlock { lines: vec!["10.0.0.5 node1 lb.lab.kubexm.internal".into()], own_name: "node1".into() }
    }

    #[test]
    fn debians_own_line_loses_the_name_and_keeps_the_others() {
        let text = render("127.0.0.1 localhost node1\n127.0.1.1 node1.example.org node1\n::1 ip6-localhost\n", &op());
        assert_eq!(
            text,
            "# kubexm: 127.0.0.1 localhost node1\n127.0.0.1\tlocalhost\n# kubexm: 127.0.1.1 node1.example.org node1\n\
             127.0.1.1\tnode1.example.org\n::1 ip6-localhost\n# BEGIN KubeXM Managed Block\n\
             10.0.0.5 node1 lb.lab.kubexm.internal\n# END KubeXM Managed Block\n"
        );
    }

    #[test]
    fn rendering_twice_is_rendering_once_and_an_old_block_is_replaced() {
        let once = render("127.0.1.1 node1\n\n", &op());
        assert_eq!(render(&once, &op()), once);
        let moved = HostsBlock { lines: vec!["10.0.0.6 node1".into()], ..op() };
        let text = render(&once, &moved);
        assert!(text.contains("10.0.0.6") && !text.contains("10.0.0.5"), "{text}");
    }
}
