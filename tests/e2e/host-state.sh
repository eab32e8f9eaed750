#!/bin/sh
# Runs on a host: what it is, one sorted line each, to be compared with what it was. Left out, and why:
EXCLUDED='
/proc /sys /dev            the kernel: what of it is the host'"'"'s own is listed below
/run /tmp /var/tmp         gone at the next boot
/var/log                   logs and journals
/var/cache /home/operator/.cache /root/.cache   what programs may forget
/var/lib/systemd           clocks of timers, the random seed, lists of what is held
/home/operator/.sudo_as_admin_successful   written by sudo itself when a user uses it for the first time
'
# And by kind: folders are compared without their times; units, processes, cgroups and mounts of logins (sessions, user@, sshd of
# one connection) come and go with who looks; sysctls that count or are random by nature (below); of units only what is loaded
# and not at rest, since systemd forgets the others when it likes, and not network-online.target, time-set.target and time-sync.target, which are reached for whoever
# asks first and stay; kernel modules and sysctls outside net., but for those that kubelet sets, are the machine's.
set -eu
export LC_ALL=C
state=$(mktemp -d /run/host-state.XXXXXX)
trap 'rm -rf "$state"' EXIT

files() {
  set --
  for path in $(printf '%s' "$EXCLUDED" | sed 's/   *[a-z].*//'); do set -- "$@" -path "$path" -o; done
  find / -xdev \( "$@" -false \) -prune -o -printf '%y %m %u:%g %p\t%l\n' > "$state/files"
  find / -xdev \( "$@" -false \) -prune -o -type f -print0 | xargs -0 -r cksum 2> /dev/null | sed 's/^/sum /'
  sed 's/^/file /' "$state/files"
}
logins='session-[0-9a-z]+\.scope|user@[0-9]+\.service|user-runtime-dir@|user-[0-9]+\.slice|/run/user/|run-user-|/user\.slice'
units() {
  systemctl list-unit-files --no-legend --no-pager --plain | awk '{ print "unit-file", $1, $2 }'
  systemctl list-units --all --no-legend --no-pager --plain | awk '$3 != "inactive" { print "unit", $1, $2, $3, $4 }' | grep -vE "$logins|\.device |(network-online|time-set|time-sync)\.target"
  systemctl list-units --no-legend --no-pager --plain --type device | awk '/net-/ { print "unit", $1 }'
  find /etc/systemd /run/systemd/system /run/systemd/transient -name '*.service' 2> /dev/null | sed 's/^/unit-at /' | grep -vE "$logins" || true
}
# a mount point that nspawn made for a host is deleted outside when the host reboots
mounts() { awk '{ print "mount", $5, $4, $6, $0 }' /proc/self/mountinfo | sed -E 's/^(mount [^ ]+ [^ ]+ [^ ]+) .* - /\1 /; s,/\.#proc-[^ ]*,(made at boot),; s,//deleted , ,' | grep -vE "$logins"; }
sysctls() {
  # counters, keys and dates of the kernel'"'"'s own
  sysctl -a 2> /dev/null | grep -E '^(net\.|vm\.(overcommit_memory|panic_on_oom) |kernel\.(panic|panic_on_oops|keys\.root_max(keys|bytes)) )' | grep -vE 'nf_conntrack_count|tcp_fastopen_key|stable_secret|fib_sync_mem|\.(rt_cache|neigh\..*gc_)' | sed 's/^/sysctl /'
}
rules() {
  nft -s list ruleset 2> /dev/null | grep -n '' | sed 's/^/nft /'
  for kind in iptables ip6tables; do ${kind}-legacy-save 2> /dev/null | grep -v '^#' | sed -E "s/\[[0-9]+:[0-9]+\]//; s/^/$kind-legacy /" || true; done
  ! command -v ipset > /dev/null || ipset list -n 2> /dev/null | sed 's/^/ipset /' || true
  ! [ -e /proc/net/ip_vs ] || sed 's/^/ipvs /' /proc/net/ip_vs
}
network() {
  ip -o -d link | sed -E 's/^[0-9]+: //; s/@if[0-9]+:/@outside:/; s/ (qlen|promiscuity|numtxqueues|gso|tso|gro|minmtu|maxmtu|addrgenmode) .*//; s/^/link /'
  ip -o addr | sed -E 's/^[0-9]+: //; s/valid_lft.*//; s/^/address /'
  ip route show table all | grep -v ' dev lo ' | sed 's/^/route /'
  for family in -4 -6; do ip $family rule | sed "s/^/rule $family /"; done
  ip neigh show nud permanent | sed 's/^/neighbour /'
  find /run/netns -mindepth 1 2> /dev/null | sed 's/^/netns /' || true
}
# Where hosts are containers with cgroup v1, nobody tells systemd that the last process of a stopped service has ended (the kernel's
# release agent does not reach it), and the empty folder stays: a service's counts while it has processes.
occupied() {
  while read -r folder; do
    case $folder in */system.slice/*.service) [ -n "$(cat "$folder/cgroup.procs" 2> /dev/null)" ] || continue ;; esac
    echo "cgroup $folder"
  done
}
cgroups() {
  for top in /sys/fs/cgroup/*; do
    find "$top/" -type d 2> /dev/null | grep -vE "$logins" | occupied || true
  done
}
processes() {
  # those of this look, and of logins, are children of sshd or of nobody on this host
  ps -eo ppid=,user=,args= | awk '$1 == 1 { $1 = ""; print "process" $0 }' | grep -vE 'sshd: |systemd --user|\(sd-pam\)|host-state' || true
}
users() { getent passwd | sed 's/^/user /'; getent group | sed 's/^/group /'; echo "hostname $(cat /proc/sys/kernel/hostname)"; }

{ files; units; mounts; sysctls; rules; network; cgroups; processes; users; } | sort -u
