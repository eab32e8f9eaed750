//! What others put into a file that we edited, too, outlives the rollback of our edit, however late that comes.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use crate::common::{Host, same};
use kubexm_ops::{Wave, dispatch};
use kubexm_plan::op::{HostsBlock, Resolver, SwapOff};
use kubexm_plan::{Op, Reset};

const FSTAB: &str = "/etc/fstab";
const HOSTS: &str = "/etc/hosts";
const RESOLV: &str = "/etc/resolv.conf";

fn swap() -> Op {
    SwapOff {}.into()
}

fn hosts(address: &str) -> Op {
    HostsBlock { lines: vec![format!("{address} debian lb.kubexm.internal")], own_name: "debian".into() }.into()
}

fn resolver() -> Op {
    Resolver { nameservers: vec!["10.0.0.2".into()] }.into()
}

fn make(host: &Host, op: &Op) -> kubexm_plan::ObservedState {
    let found = dispatch::observe(op, &host.machine).expect("a look");
    dispatch::keep(op, &host.machine).expect("kept");
    dispatch::converge(op, &host.machine).expect("made");
    found
}

fn back(host: &Host, op: &Op, found: &kubexm_plan::ObservedState) {
    for wave in Wave::ALL {
        dispatch::restore(op, &host.machine, found, wave).unwrap_or_else(|error| panic!("{}", error.full()));
    }
}

fn append(host: &Host, path: &str, line: &str) {
    host.put(path, host.read(path) + line);
}

#[test]
fn disks_added_to_fstab_since_stay_when_swap_is_restored() {
    let host = Host::fresh();
    let old = host.read(FSTAB);
    let disk = "UUID=cccc /srv/data ext4 defaults 0 2\n";
    let note = "# kubexm: told to leave the next line alone\n";
    let found = make(&host, &swap());
    append(&host, FSTAB, disk);
    append(&host, FSTAB, note);
    back(&host, &swap(), &found);
    assert_eq!(host.read(FSTAB), old + disk + note);
}

#[test]
fn a_swap_line_that_an_earlier_run_took_out_stays_out_when_a_later_one_is_rolled_back() {
    let host = Host::fresh();
    make(&host, &swap());
    let first = host.read(FSTAB);
    append(&host, FSTAB, "/swapfile none swap sw 0 0\n");
    let found = make(&host, &swap());
    append(&host, FSTAB, "UUID=cccc /srv/data ext4 defaults 0 2\n");
    back(&host, &swap(), &found);
    let wanted = first + "/swapfile none swap sw 0 0\nUUID=cccc /srv/data ext4 defaults 0 2\n";
    assert_eq!(host.read(FSTAB), wanted);
}

#[test]
fn a_mask_that_somebody_has_replaced_by_a_unit_is_left_alone() {
    let host = Host::fresh();
    host.put("/usr/lib/systemd/system/dev-x.swap", "[Swap]\nWhat=/dev/x\n");
    host.put("/usr/lib/systemd/zram-generator.conf", "[zram0]\n");
    let found = make(&host, &swap());
    let (unit, zram) = ("/etc/systemd/system/dev-x.swap", "/etc/systemd/zram-generator.conf");
    std::fs::remove_file(host.machine.path(unit)).expect("no mask");
    host.put(unit, "[Swap]\nWhat=/dev/y\n");
    host.put(zram, "[zram1]\n");
    back(&host, &swap(), &found);
    assert_eq!(host.read(unit), "[Swap]\nWhat=/dev/y\n");
    assert_eq!(host.read(zram), "[zram1]\n");
}

#[test]
fn names_added_to_hosts_since_stay_when_our_block_is_removed() {
    let host = Host::fresh();
    host.put(HOSTS, "127.0.0.1 localhost debian\n127.0.1.1 debian\n\n::1 ip6-localhost\n");
    let found = make(&host, &hosts("10.0.0.5"));
    let site = "192.0.2.7 printer\n";
    append(&host, HOSTS, site);
    back(&host, &hosts("10.0.0.5"), &found);
    assert_eq!(host.read(HOSTS), format!("127.0.0.1 localhost debian\n127.0.1.1 debian\n\n::1 ip6-localhost\n{site}"));
}

#[test]
fn the_block_of_an_earlier_run_is_restored_and_names_added_since_stay() {
    let host = Host::fresh();
    make(&host, &hosts("10.0.0.5"));
    let first = host.read(HOSTS);
    let found = make(&host, &hosts("10.0.0.6"));
    host.put(HOSTS, format!("192.0.2.7 printer\n{}", host.read(HOSTS)));
    back(&host, &hosts("10.0.0.6"), &found);
    assert_eq!(host.read(HOSTS), format!("192.0.2.7 printer\n{first}"));
}

#[test]
fn a_resolv_conf_that_was_changed_since_loses_our_servers_alone() {
    let host = Host::fresh();
    host.put(RESOLV, "nameserver 192.0.2.53\n");
    let found = make(&host, &resolver());
    append(&host, RESOLV, "search site.example\n");
    back(&host, &resolver(), &found);
    assert_eq!(host.read(RESOLV), "nameserver 192.0.2.53\nsearch site.example\n");
}

#[test]
fn a_resolv_conf_that_was_written_anew_since_is_left_and_never_without_a_server() {
    let host = Host::fresh();
    host.put(RESOLV, "nameserver 192.0.2.53\n");
    let found = make(&host, &resolver());
    for new in ["nameserver 192.0.2.99\n", "search site.example\nnameserver 10.0.0.2\n"] {
        host.put(RESOLV, new);
        back(&host, &resolver(), &found);
        assert_eq!(host.read(RESOLV), new);
    }
    std::fs::remove_file(host.machine.path(RESOLV)).expect("gone");
    let stub = "../run/systemd/resolve/stub-resolv.conf";
    std::os::unix::fs::symlink(stub, host.machine.path(RESOLV)).expect("a link");
    back(&host, &resolver(), &found);
    assert_eq!(std::fs::read_link(host.machine.path(RESOLV)).expect("still a link"), std::path::Path::new(stub));
}

#[test]
fn what_was_satisfied_and_never_kept_is_left_as_it_is() {
    let host = Host::fresh();
    host.put(FSTAB, "UUID=aaaa / ext4 defaults 0 1\n");
    host.put("/proc/swaps", "Filename Type Size Used Priority\n");
    let found = dispatch::observe(&swap(), &host.machine).expect("a look");
    let line = "UUID=aaaa / ext4 defaults 0 1\nUUID=cccc /srv/data ext4 defaults 0 2\n";
    host.put(FSTAB, line);
    back(&host, &swap(), &found);
    assert_eq!(host.read(FSTAB), line);
}

#[test]
fn a_reset_keeps_what_others_added_and_its_own_rollback_gives_all_of_it_again() {
    let host = Host::fresh();
    host.put(HOSTS, "127.0.0.1 localhost\n127.0.1.1 debian\n");
    host.put(RESOLV, "nameserver 192.0.2.53\n");
    let ops = vec![swap(), hosts("10.0.0.5"), resolver()];
    let before: Vec<_> = ops.iter().map(|op| make(&host, op)).collect();
    let additions =
        [(FSTAB, "UUID=cccc /srv/data ext4 defaults 0 2\n"), (HOSTS, "192.0.2.7 printer\n"), (RESOLV, "search a\n")];
    for (path, line) in additions {
        append(&host, path, line);
    }
    let installed = host.tree();
    let reset = Op::Reset(Reset::Reverted { ops, before });
    let found = make(&host, &reset);
    assert!(dispatch::observe(&reset, &host.machine).expect("a look").satisfied, "it would be done again for ever");
    for (path, line) in additions {
        let text = host.read(path);
        assert!(text.contains(line), "{path}: {text}");
        assert!(!text.contains("kubexm") && !text.contains("KubeXM") && !text.contains("10.0.0."), "{path}: {text}");
    }
    back(&host, &reset, &found);
    same(&installed, &host.tree(), "the reset rolled back");
}
