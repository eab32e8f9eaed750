//! Files that steps edit or replace: they are the operator's again afterwards.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use kubexm_spec::ExitCode;

use super::super::case::{Act, Case, Kept, nothing};
use super::super::site::Site;
use super::{REFUSED, RESET, ROLLED_BACK, cases};

const HOSTS: &[u8] = b"127.0.0.1\tlocalhost\r\n127.0.1.1 node1 # caf\xe9\r\n\r\n10.9.9.9 intranet";
const FSTAB: &[u8] =
    b"UUID=aaaa / ext4 errors=remount-ro 0 1\r\n/srv/\xe9.img none swap sw 0 0\r\nnfs:/x /mnt nfs ro 0 0";

fn hosts(s: &mut Site) {
    s.put("/etc/hosts", HOSTS, 0o640, 1001);
}

fn fstab(s: &mut Site) {
    s.put("/etc/fstab", FSTAB, 0o600, 0);
}

fn linked(s: &mut Site) {
    for (path, target, bytes) in [("/etc/hosts", "../srv/hosts", HOSTS), ("/etc/fstab", "../srv/fstab", FSTAB)] {
        s.put(target.trim_start_matches(".."), bytes, 0o644, 0);
        s.link(path, target);
    }
}

fn sysctls(s: &mut Site) {
    s.put("/etc/sysctl.d/99-kubexm-cri.conf", "net.ipv4.ip_forward=0\n", 0o600, 7);
    s.put("/etc/modules-load.d/kubexm.conf", "dummy", 0o600, 7);
}

fn linked_sysctl(s: &mut Site) {
    s.put("/srv/sysctl.conf", "vm.swappiness=1\n", 0o600, 7);
    s.link("/etc/sysctl.d/99-kubexm-cri.conf", "../../srv/sysctl.conf");
}

fn programs(s: &mut Site) {
    s.put("/usr/local/bin/kubectl", "the operator's own", 0o4750, 1001);
    s.put("/etc/crictl.yaml", "timeout: 3", 0o600, 1001);
}

fn linked_program(s: &mut Site) {
    s.link("/usr/local/bin/kubectl", OsStr::from_bytes(b"/opt/caf\xe9/kubectl"));
}

fn swap_units(s: &mut Site) {
    s.put("/etc/systemd/system/data.swap", "[Swap]\nWhat=/data\n", 0o640, 0);
    s.put("/etc/systemd/zram-generator.conf", "[zram0]\n", 0o600, 0);
    s.put("/usr/lib/systemd/zram-generator.conf", "[zram0]\n", 0o644, 0);
}

fn named(s: &mut Site) {
    s.put("/etc/hostname", "web7", 0o600, 0);
    s.host("node1").put("/proc/sys/kernel/hostname", "web7\n");
    s.put("/etc/cloud/cloud.cfg.d/99-kubexm.cfg", "preserve_hostname: false\n", 0o600, 0);
}

fn kubeconfig(s: &mut Site) {
    s.put("/root/.kube/config", "contexts of three other clusters", 0o600, 0);
    s.put("/root/.kube/cache/x", "x", 0o640, 0);
}

cases! {
    hosts_with_crlf_latin1_and_no_newline_are_as_before_after_a_rollback: Case { start: hosts, ..ROLLED_BACK };
    hosts_with_crlf_latin1_and_no_newline_are_as_before_after_a_reset: Case { start: hosts, ..RESET };
    a_line_added_to_hosts_with_crlf_stays_after_a_reset_and_so_does_every_byte: Case {
        start: hosts,
        meanwhile: |s| s.edit(
            "/etc/hosts",
            |now| [b"10.9.9.8 added\r\n".as_slice(), &now].concat(),
            [b"10.9.9.8 added\r\n", HOSTS].concat(),
        ),
        ..RESET
    };
    fstab_with_crlf_latin1_and_no_newline_is_as_before_after_a_rollback: Case { start: fstab, ..ROLLED_BACK };
    a_disk_added_to_fstab_stays_after_a_reset: Case {
        start: fstab,
        meanwhile: |s| s.edit(
            "/etc/fstab",
            |now| [now.as_slice(), b"\nUUID=new /data xfs defaults 0 0\n"].concat(),
            [FSTAB, b"\nUUID=new /data xfs defaults 0 0\n"].concat(),
        ),
        ..RESET
    };
    linked_hosts_and_fstab_are_links_again_after_a_rollback: Case { start: linked, ..ROLLED_BACK };
    linked_hosts_and_fstab_are_links_again_after_a_reset: Case { start: linked, ..RESET };
    files_of_the_same_names_are_as_before_after_a_rollback: Case { start: sysctls, ..ROLLED_BACK };
    files_of_the_same_names_are_as_before_after_a_reset: Case { start: sysctls, ..RESET };
    a_linked_sysctl_file_is_a_link_again: Case { start: linked_sysctl, ..ROLLED_BACK };
    a_sysctl_that_a_boot_reads_later_is_refused: Case {
        start: |s| {
            s.put("/srv/hard.conf", "net.ipv4.ip_forward = 0\n", 0o600, 0);
            s.link("/etc/sysctl.d/99-sysctl.conf", "../../srv/hard.conf");
        },
        ends: (ExitCode::Preflight, "/etc/sysctl.d/99-sysctl.conf"), ..REFUSED
    };
    programs_of_the_same_names_are_as_before_after_a_rollback: Case { start: programs, ..ROLLED_BACK };
    programs_of_the_same_names_are_as_before_after_a_reset: Case { start: programs, ..RESET };
    a_program_that_is_a_link_of_an_odd_name_is_that_link_again: Case { start: linked_program, ..ROLLED_BACK };
    a_folder_where_a_program_goes_stops_the_create_and_stays: Case {
        start: |s| s.put("/usr/local/bin/kubectl/mine", "x", 0o600, 1001),
        act: Act::CreateThatFails, ends: (ExitCode::RunFailed, "is a directory"), ..ROLLED_BACK
    };
    a_pipe_where_a_file_goes_stops_the_create_and_stays: Case {
        start: |s| {
            let path = s.at("node1", "/etc/crictl.yaml");
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o640.into(), 0).unwrap();
        },
        act: Act::CreateThatFails, ends: (ExitCode::RunFailed, "pipe"), ..ROLLED_BACK
    };
    an_immutable_hosts_file_stops_the_create_and_the_message_says_so: Case {
        start: |s| s.immutable("/etc/hosts"),
        act: Act::CreateThatFails, ends: (ExitCode::RunFailed, "chattr -i"), ..ROLLED_BACK
    };
    swap_units_and_zram_are_as_before_after_a_rollback: Case { start: swap_units, ..ROLLED_BACK };
    swap_units_and_zram_are_as_before_after_a_reset: Case { start: swap_units, ..RESET };
    another_hostname_without_a_newline_is_as_before: Case { start: named, ..ROLLED_BACK };
    the_users_kubeconfig_is_as_before_after_a_rollback: Case { start: kubeconfig, ..ROLLED_BACK };
    the_users_kubeconfig_is_as_before_after_a_reset: Case { start: kubeconfig, ..RESET };
    a_second_create_leaves_the_operators_files: Case {
        start: nothing,
        act: Act::CreateTwice,
        meanwhile: |s| {
            s.put("/etc/kubexm/notes.txt", "x", 0o600, 1001);
            s.put("/var/lib/kubelet/mine/x", "x", 0o600, 1001);
            s.put("/etc/cni/net.d/.mine", "x", 0o600, 1001);
        },
        later: &["/etc/kubexm/notes.txt", "/var/lib/kubelet/mine", "/etc/cni/net.d/.mine"],
        ends: (ExitCode::Ok, "Succeeded"),
        kept: Kept::These(&["/etc/kubexm/notes.txt", "/var/lib/kubelet/mine", "/etc/cni/net.d/.mine", "/srv"]),
        ..ROLLED_BACK
    };
}
