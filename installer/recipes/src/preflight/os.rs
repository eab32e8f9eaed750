//! The operating system is in the support table.

use super::input::PreflightInput;
use super::report::Report;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        let (id, version) = (&host.facts.os_id, &host.facts.os_version);
        match input.cx.catalogue.os(id, version) {
            None => {
                let known: Vec<&str> = input.cx.catalogue.os.keys().map(String::as_str).collect();
                let found =
                    if id.is_empty() { "no ID in /etc/os-release".to_owned() } else { format!("{id} {version}") };
                report.fail(host.name(), found, format!("one of {}", known.join(", ")), "use a host with one of these");
            }
            Some((name, profile)) if !profile.tried => report.warn(
                host.name(),
                name,
                "a system that this release was tested on",
                "it is in the support table, but this release was not tested on it: test it on one such host first",
            ),
            Some(_) => (),
        }
    }
}
