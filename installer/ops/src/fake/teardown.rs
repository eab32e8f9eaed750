//! Programs that the removal of a cluster calls: `umount` with the directory's mountinfo, packet filters as texts, links
//! as folders.
//!
//! Tests set `ip-rules` (what `ip -4 rule show` says), `ip-routes` (what `ip -4 route show` says), `ip-addresses` (interface and address on each line), `tc-filters` (what `tc filter show dev eth0 ingress` says), `busy-mounts.json` (mount points that cannot be unmounted) and `<program>-save` (that program's output, until
//! something is restored; the input of `<program>-restore` is stored in a file of that name).

use super::rooted::{FOLDER, RootedSystem};
use crate::OpError;
use crate::system::Output;

const MOUNTS: &str = "/proc/self/mountinfo";

pub(super) fn umount(system: &RootedSystem, args: &[&str]) -> Result<Output, OpError> {
    let point = args.last().copied().unwrap_or_default();
    let busy: Vec<String> = system.setting("busy-mounts.json").unwrap_or_default();
    let text = system.read(MOUNTS).unwrap_or_default();
    // The kernel's escape for a space (proc(5)).
    let written = point.replace(' ', "\\040");
    let is_it = |line: &&str| line.split(' ').nth(4) == Some(written.as_str());
    let mut lines: Vec<&str> = text.lines().collect();
    let Some(last) = lines.iter().rposition(is_it) else {
        return Ok(Output::failed(32, format!("umount: {point}: not mounted.")));
    };
    if busy.iter().any(|busy| busy == point) {
        return Ok(Output::failed(32, format!("umount: {point}: target is busy.")));
    }
    lines.remove(last);
    let path = system.at(MOUNTS);
    std::fs::write(&path, lines.join("\n") + "\n").map_err(OpError::path("write", &path))?;
    Ok(Output::default())
}

/// `ipvsadm --clear`: the kernel's table has its head alone.
pub(super) fn ipvsadm(system: &RootedSystem) -> Result<Output, OpError> {
    let path = system.at("/proc/net/ip_vs");
    std::fs::write(&path, "IP Virtual Server version 1.2.1\n").map_err(OpError::path("write", &path))?;
    Ok(Output::default())
}

pub(super) fn ip(system: &RootedSystem, args: &[&str]) -> Result<Output, OpError> {
    if let ["link", "delete", name] = args {
        let link = system.at(&format!("/sys/class/net/{name}"));
        if std::fs::remove_dir_all(&link).is_err() {
            return Ok(Output::failed(1, format!("Cannot find device \"{name}\"")));
        }
        // As the kernel does.
        if system.read(&format!("{FOLDER}/ip-routes")).is_some() {
            without(system, "ip-routes", &format!(" dev {name} "))?;
        }
    }
    match args {
        ["-4", "route", "show", ..] => return Ok(Output::text(listed(system, "ip-routes"))),
        ["-4", "route", "delete", words @ .., "proto", _] => {
            let route = format!("{} ", words.join(" "));
            if !listed(system, "ip-routes").contains(&route) {
                return Ok(Output::failed(2, "RTNETLINK answers: No such process"));
            }
            without(system, "ip-routes", &route)?;
        }
        _ => {}
    }
    if let ["-4", "-oneline", "address", "show", "dev", link] = args {
        let addresses = listed(system, "ip-addresses");
        let of_link = addresses.lines().filter_map(|line| line.strip_prefix(&format!("{link} ")));
        let shown =
            |address: &str| format!("7: {link}    inet {address} scope global {link}\\       valid_lft forever\n");
        return Ok(Output::text(of_link.map(shown).collect::<String>()));
    }
    if let ["-4", words @ ..] = args
        && let ["-json", "address", "show", "to", address] | ["address", "delete", address, "dev", _] = words
    {
        let addresses = listed(system, "ip-addresses");
        let names = addresses.lines().filter_map(|line| line.strip_suffix(&format!(" {address}")));
        let found: Vec<_> = names.map(|name| serde_json::json!({"ifname": name})).collect();
        if words.contains(&"show") {
            return Ok(Output::text(serde_json::Value::from(found).to_string()));
        }
        without(system, "ip-addresses", &format!(" {address}"))?;
    }
    if let ["-4", "rule", verb, rest @ ..] = args {
        let rules = system.read(&format!("{FOLDER}/ip-rules")).unwrap_or_default();
        match (*verb, rest) {
            ("show", _) => return Ok(Output::text(rules)),
            ("add", ["preference", preference, "table", table, ..]) => {
                system.put("ip-rules", format!("{preference}:\tfrom all lookup {table}\n{rules}").as_bytes())?;
            }
            ("delete", ["preference", preference, "table", _]) => {
                let other = |line: &&str| line.split(':').next() != Some(*preference);
                let left: String = rules.lines().filter(other).map(|line| format!("{line}\n")).collect();
                system.put("ip-rules", left.as_bytes())?;
            }
            _ => return Ok(Output::failed(255, "Error: argument is wrong")),
        }
    }
    Ok(Output::default())
}

/// A datapath is a link; its own ports have a file `datapath` with its name.
pub(super) fn delete_datapath(system: &RootedSystem, name: &str) -> Result<(), OpError> {
    let net = system.at("/sys/class/net");
    let all = std::fs::read_dir(&net).map_err(OpError::path("list", &net))?.filter_map(Result::ok);
    let is_of_it = |path: &std::path::Path| std::fs::read_to_string(path.join("datapath")).is_ok_and(|of| of == name);
    for path in all.map(|entry| entry.path()) {
        if path.ends_with(name) || is_of_it(&path) {
            std::fs::remove_dir_all(&path).map_err(OpError::path("remove", &path))?;
        } else if std::fs::read_link(path.join("master")).is_ok_and(|master| master.ends_with(name)) {
            std::fs::remove_file(path.join("master")).map_err(OpError::path("remove", &path))?;
        }
    }
    Ok(())
}

fn listed(system: &RootedSystem, name: &str) -> String {
    system.read(&format!("{FOLDER}/{name}")).unwrap_or_default()
}

/// Removes the lines with a text.
fn without(system: &RootedSystem, name: &str, text: &str) -> Result<(), OpError> {
    let all = listed(system, name);
    let left: String = all.lines().filter(|line| !line.contains(text)).map(|line| format!("{line}\n")).collect();
    system.put(name, left.as_bytes()).map(drop)
}

/// One link, `eth0`, has filters at its ingress.
pub(super) fn tc(system: &RootedSystem, args: &[&str]) -> Result<Output, OpError> {
    let filters = system.read(&format!("{FOLDER}/tc-filters"));
    Ok(match (args, filters) {
        (["qdisc", "show"], Some(_)) => Output::text("qdisc clsact ffff: dev eth0 parent ffff:fff1 \n"),
        (["filter", "show", "dev", "eth0", "ingress"], Some(filters)) => Output::text(filters),
        (["filter", "delete", "dev", "eth0", "ingress", "preference", preference], Some(filters)) => {
            let other = |line: &&str| !line.contains(&format!(" pref {preference} "));
            let left: String = filters.lines().filter(other).map(|line| format!("{line}\n")).collect();
            system.put("tc-filters", left.as_bytes())?;
            Output::default()
        }
        (["qdisc", "delete", "dev", "eth0", "clsact"], Some(_)) => {
            let path = system.at(&format!("{FOLDER}/tc-filters"));
            std::fs::remove_file(&path).map_err(OpError::path("remove", &path))?;
            Output::default()
        }
        _ => Output::default(),
    })
}

/// `iptables-save`, `ip6tables-restore` and their variants; none for other programs.
pub(super) fn filter(system: &RootedSystem, name: &str, stdin: &[u8]) -> Result<Option<Output>, OpError> {
    if name.ends_with("tables-save") {
        return Ok(Some(Output::text(system.read(&format!("{FOLDER}/{name}")).unwrap_or_default())));
    }
    let Some(program) = name.strip_suffix("-restore").filter(|program| program.ends_with("tables")) else {
        return Ok(None);
    };
    system.put(name, stdin)?;
    system.put(&format!("{program}-save"), b"")?;
    Ok(Some(Output::default()))
}

/// Removes a signalled process from the directory's /proc; one that a test marks `stubborn` only if it is killed.
pub(super) fn signal(system: &RootedSystem, pid: u32, kill: bool) -> Result<(), OpError> {
    let process = system.at(&format!("/proc/{pid}"));
    if !kill && process.join("stubborn").exists() {
        return Ok(());
    }
    match std::fs::remove_dir_all(&process) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(OpError::path("end", &process)(error)),
        _ => Ok(()),
    }
}
