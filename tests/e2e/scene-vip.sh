# shellcheck shell=bash
# tier: long
# seconds: 600
# needs: lab keepalived
# keepalived and haproxy on two hosts that are nothing else, before three control planes: one of these joins, the holder of the address
# loses its haproxy, its keepalived, its network, its API servers; both are switched off. A client asks through the address all the time.
say "keepalived and haproxy on hosts of their own"
HOME_NAME=home-vip
KIND=kubexm-kh PROXY=haproxy
. "$ROOT/tests/e2e/vip.sh"
vip_files
vip_yaml "n1, n2" 10.78.0.100 n1 10.77.0.11 n2 10.77.0.12 n4 10.77.0.14 > "$WORK/vip-elsewhere.yaml"

check "a bundle has keepalived and haproxy" vip_bundle
[ "$HELD" = 1 ] || return 0
check "as packages of the distribution" carried keepalived haproxy
vip_hosts

say "what is refused before any change"
lab host root n3 ip address add $VIP/24 dev host0
check "an address that a machine outside of the cluster has" says 53 "hardware address" vip vip-2 create
lab host root n3 ip address del $VIP/24 dev host0
lab host root l2 ip address add $VIP/24 dev host0
check "one that a host has as its own" says 53 "$VIP on host0" vip vip-2 create
lab host root l2 ip address del $VIP/24 dev host0
check "one of another network" says 53 "its address is in no network with 10.78.0.100" vip vip-elsewhere create
check "a router id that somebody else in the network announces" announced says 53 "10.77.0.1 announces router id 100" vip vip-2 create
# A program of that name that runs is enough.
lab host root l1 'cp /bin/sleep /run/haproxy && systemd-run --unit theirs /run/haproxy 600'
check "a host with a haproxy of its own that runs" says 53 "haproxy running" vip vip-2 create
lab host root l1 'systemctl stop theirs; rm /run/haproxy'
untouched() { ! lab host root l1 'ls -d /etc/kubexm /usr/sbin/haproxy 2> /dev/null | grep .'; }
check "nothing was changed for that" untouched

vip_comes_up || return 0
back_ends() { lab host root "$1" "grep -o '10[.]77[.]0[.][0-9]*:6443 check' /etc/kubexm/balancer/haproxy.cfg | cut -d: -f1 | sort -u | tr '\n' ' '"; }
PROCESSES=$(processes)
check "a control plane is added, and the client sees nothing of it" during join 2 vip vip-3 add-node
check "it is a back-end on both" back_ends_are "10.77.0.11 10.77.0.12 10.77.0.13"
check "no process was started anew for that" same_processes
check "a further create changes nothing" vip_nothing_to_do vip-3

say "what the holder loses"
loses_programs
check "its network is gone, without a word" during network 2 lab net cut "$(holder)" 12
check "exactly one host has it when the network is back" within 60 one_holder
HOLDER=$(holder)
check "its host is switched off" during off 6 lab host stop "$HOLDER"
check "the other one has it" within 60 holds "$(other "$HOLDER")"
check "the host is back" lab host up "$HOLDER" "$([ "$HOLDER" = l1 ] && echo 10.77.0.21 || echo 10.77.0.22)"
check "and has not taken it back" within 60 one_holder
check "nor later" holds "$(other "$HOLDER")"
loses_the_api
both() { lab host stop l1 && lab host stop l2 && lab host up "${BALANCERS[@]}"; }
check "both are switched off and come back" both
check "exactly one has it, and it answers" within 60 answers
check "exactly one" one_holder
cat "$WORK/vip-figures"

say "fewer control planes, and none"
PROCESSES=$(processes)
check "a control plane leaves, and the client sees nothing of it" during leave 2 vip vip-3 delete-node n3
check "it is a back-end of nobody" back_ends_are "10.77.0.11 10.77.0.12"
check "no process was started anew for that, either" same_processes
check "the cluster is reset" vip vip-3 reset
check "every host is as it was before" as_before
lab host down --all
HOME_NAME=home
