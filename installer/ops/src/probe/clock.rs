//! chrony follows a time server, according to `chronyc sources`. A server that it has followed since its start and that
//! does not answer now is sufficient: the clock is right, and a second run on a working cluster should not fail for
//! this.

use kubexm_plan::ProbeAnswer;

use super::answer::{no, yes};
use crate::system::Program;
use crate::{Machine, OpError};

pub(super) fn look(machine: &Machine, servers: &[String]) -> Result<ProbeAnswer, OpError> {
    let ask = |what: &str| machine.try_run(&Program::new("chronyc").args(["-n", "-c", what]).within(10));
    let output = ask("sources")?;
    if output.code != 0 {
        return Ok(no(format!("chronyd does not answer: {}", output.tail())));
    }
    let said = output.stdout();
    let sources: Vec<Source<'_>> = said.lines().filter_map(Source::read).collect();
    let reported = sources.iter().map(Source::describe).collect::<Vec<_>>().join("; ");
    if sources.iter().any(|source| source.state == "*") {
        return Ok(yes(reported));
    }
    if was_set(&ask("tracking")?.stdout()) {
        return Ok(yes(format!("the clock was set by a time server, and none is followed now: {reported}")));
    }
    let wanted = servers.join(", ");
    let reported = if reported.is_empty() { "none of them has an address".to_owned() } else { reported };
    Ok(no(format!("the clock follows no time server of spec.system.ntpServers ({wanted}): {reported}")))
}

/// From the line of `chronyc -c tracking`: the first field is the reference, the last the leap status (chronyc(1)).
fn was_set(tracking: &str) -> bool {
    let fields: Vec<&str> = tracking.trim().split(',').collect();
    fields.len() > 2 && fields.first() != Some(&"00000000") && fields.last() != Some(&"Not synchronised")
}

/// A line of `chronyc -c sources`: mode, state, address, stratum, poll, reach … (chronyc(1)).
struct Source<'a> {
    state: &'a str,
    address: &'a str,
    /// The last eight polls as bits, in octal.
    reach: &'a str,
}

impl<'a> Source<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        match fields[..] {
            [_, state, address, _, _, reach, ..] => Some(Self { state, address, reach }),
            _ => None,
        }
    }

    fn describe(&self) -> String {
        let Self { state, address, reach } = self;
        match (*state, *reach) {
            ("*", _) => format!("{address} is followed"),
            // A name that cannot be resolved appears as `ID#0000000001`.
            _ if address.starts_with("ID#") => "the name of one cannot be resolved".to_owned(),
            (_, "0") => format!("{address} has not answered (does a firewall drop udp/123?)"),
            ("x", _) => format!("{address} reports another time than most"),
            ("~", _) => format!("{address} is too unstable"),
            ("?", _) => {
                format!("{address} answers, but is not selected: it is not synchronised itself, or has just started")
            }
            _ => format!("{address} answers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(line: &str) -> String {
        Source::read(line).map(|source| source.describe()).unwrap_or_default()
    }

    /// Lines as chrony 4.3 writes them.
    #[test]
    fn what_is_wrong_with_a_time_server_is_reported_by_its_address() {
        assert_eq!(describe("^,*,10.0.0.9,10,6,17,23,-0.000000012,-0.000021,0.000139"), "10.0.0.9 is followed");
        assert!(describe("^,?,10.0.0.9,0,6,0,4294967295,0.0,0.0,0.0").contains("10.0.0.9 has not answered"));
        assert!(describe("^,?,10.0.0.9,0,6,3,1,0.0,0.0,0.0").contains("is not synchronised itself"));
        assert!(describe("^,x,10.0.0.9,3,6,377,1,0.0,0.0,0.0").contains("another time than most"));
        assert!(describe("^,?,ID#0000000002,0,6,0,4294967295,0.0,0.0,0.0").contains("cannot be resolved"));
        assert_eq!(describe("506 Cannot talk to daemon"), "");
    }

    #[test]
    fn an_unset_clock_is_distinguished_from_one_that_a_server_has_set() {
        let line = |reference: &str, leap: &str| {
            format!("{reference},10.0.0.9,11,1795347845.9,0.0,0.0,0.0,-12.4,0.0,0.02,0.0001,0.00004,64.2,{leap}\n")
        };
        assert!(was_set(&line("0A000009", "Normal")));
        assert!(!was_set(&line("00000000", "Not synchronised")) && !was_set(&line("0A000009", "Not synchronised")));
        assert!(!was_set("") && !was_set("506 Cannot talk to daemon"));
    }
}
