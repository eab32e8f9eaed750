# shellcheck shell=bash
# tier: long
# seconds: 600
# needs: lab keepalived
# keepalived and haproxy on two hosts that are nothing else, before three control planes: one of these joins, the holder of the address
# loses its haproxy, its keepalived, its network, its API servers; both are switched off. A client asks through the address all the time.
. "$ROOT/tests/e2e/host.sh"
. "$ROOT/tests/e2e/fleet.sh"
say "keepalived and haproxy on hosts of their own"
HOME_NAME=home-vip
FLEET=(n1 n2 n3 n4 l1 l2)
VIP=10.77.0.100
BALANCERS=(l1 10.77.0.21 l2 10.77.0.22)

# vip_yaml CONTROL-PLANES VIP HOST ADDRESS...
vip_yaml() {
  local planes=$1 vip=$2; shift 2
  lab cluster-yaml --control-planes 1 "$@" "${BALANCERS[@]}" |
    sed "s|roleGroups: .*|roleGroups: {master: [$planes], worker: [n4], loadbalancer: [l1, l2]}|; s|bundle: {|bundle: {os: [debian-12], |"
  echo "  loadBalancer: {mode: external, external: {type: kubexm-kh}, vip: $vip}"
}
vip_yaml "n1, n2" $VIP n1 10.77.0.11 n2 10.77.0.12 n4 10.77.0.14 > "$WORK/vip-2.yaml"
vip_yaml "n1, n2, n3" $VIP n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13 n4 10.77.0.14 > "$WORK/vip-3.yaml"
vip_yaml "n1, n2" 10.78.0.100 n1 10.77.0.11 n2 10.77.0.12 n4 10.77.0.14 > "$WORK/vip-elsewhere.yaml"
vip_bundle() { "$BUNDLE" build -f "$WORK/vip-3.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/vip.tar.zst"; }
# vip YAML VERB ARGS...
vip() { install "$2" --bundle "$WORK/vip.tar.zst" -f "$WORK/$1.yaml" --allow-unsigned --accept-new-host-keys -y "${@:3}"; }
vip_nothing_to_do() {
  vip "$1" create --json > "$WORK/again.jsonl" || { tail -n 3 "$WORK/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again.jsonl"
}
vip_ready() { [ "$(kubectl_on n1 get nodes --no-headers | grep -c ' Ready ')" = "$1" ]; }

has_it() { lab host root "$1" ip -4 -o address show | grep -qF " $VIP/"; }
holder() { local host; for host in l1 l2; do ! has_it "$host" 2> /dev/null || echo "$host"; done; }
one_holder() { local found; found=$(holder); echo "holders: $found"; [ "$(wc -w <<< "$found")" = 1 ]; }
other() { if [ "$1" = l1 ]; then echo l2; else echo l1; fi; }
holds() { [ "$(holder)" = "$1" ]; }
answers() { lab in-net curl -sk -f -m 2 -o /dev/null "https://$VIP:6443/readyz"; }

check "a bundle has keepalived and haproxy" vip_bundle
[ "$HELD" = 1 ] || return 0
carried() { "$BUNDLE" inspect --json "$WORK/vip.tar.zst" > "$WORK/vip.json" && grep -q package/debian-12/haproxy "$WORK/vip.json" && grep -q package/debian-12/keepalived "$WORK/vip.json"; }
check "as packages of the distribution" carried
lab host up n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13 n4 10.77.0.14
lab host up "${BALANCERS[@]}" --bare
states before

say "what is refused before any change"
lab host root n3 ip address add $VIP/24 dev host0
check "an address that a machine outside of the cluster has" says 53 "hardware address" vip vip-2 create
lab host root n3 ip address del $VIP/24 dev host0
lab host root l2 ip address add $VIP/24 dev host0
check "one that a host has as its own" says 53 "$VIP on host0" vip vip-2 create
lab host root l2 ip address del $VIP/24 dev host0
check "one of another network" says 53 "its address is in no network with 10.78.0.100" vip vip-elsewhere create
# A program of that name that runs is enough.
lab host root l1 'cp /bin/sleep /run/haproxy && systemd-run --unit theirs /run/haproxy 600'
check "a host with a haproxy of its own that runs" says 53 "haproxy running" vip vip-2 create
lab host root l1 'systemctl stop theirs; rm /run/haproxy'
untouched() { ! lab host root l1 'ls -d /etc/kubexm /usr/sbin/haproxy 2> /dev/null | grep .'; }
check "nothing was changed for that" untouched

say "a cluster behind the address"
check "two control planes come up behind it" vip vip-2 create
[ "$HELD" = 1 ] || return 0
check "every node is Ready" within 180 vip_ready 3
check "exactly one host has the address" within 20 one_holder
check "the API answers through it" within 20 answers
through() { lab host root n4 /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/kubelet.conf --request-timeout=3s get --raw /readyz && lab host root n4 "ss -Htn state established dport = :6443" | grep -qF "$VIP:6443"; }
check "the worker asks through it" within 60 through
bare() { lab host root "$1" 'systemctl is-active kubexm-haproxy kubexm-keepalived && ! ls -d /usr/local/bin/kube{let,adm,ctl} /usr/local/bin/containerd /etc/kubernetes 2> /dev/null | grep .'; }
check "its hosts have neither kubelet nor runtime (l1)" bare l1
check "its hosts have neither kubelet nor runtime (l2)" bare l2
off() { ! lab host root "$1" 'systemctl is-enabled haproxy keepalived' | grep -x enabled; }
check "the distribution's own units are off" off l1
vip_status() {
  install status -f "$WORK/vip-3.yaml" > "$WORK/vip-status" || true
  grep "$(holder) .*has the address" "$WORK/vip-status" && grep "$(other "$(holder)") .*standby" "$WORK/vip-status"
}
check "status shows who has it" vip_status
check "a second create changes nothing" vip_nothing_to_do vip-2

back_ends() { lab host root "$1" "grep -o '10[.]77[.]0[.][0-9]*:6443 check' /etc/kubexm/balancer/haproxy.cfg | cut -d: -f1 | sort -u | tr '\n' ' '"; }
back_ends_are() { local host found; for host in l1 l2; do found=$(back_ends $host); echo "$host: $found"; [ "$found" = "$1 " ] || return 1; done; }
processes() { local host; for host in l1 l2; do lab host root $host systemctl show -P MainPID kubexm-haproxy kubexm-keepalived; done | tr '\n' ' '; }
# asking FILE: a client of the API until that file is gone; a new connection each time
asking() {
  lab in-net bash -c "while [ -e $1 ]; do
    if curl -sk -f -m 1 -o /dev/null https://$VIP:6443/readyz; then echo ok \$(date +%s.%N); else echo no \$(date +%s.%N); fi
    sleep 0.1; done" > "$1.log"
}
# outage SECONDS FILE: what the client saw
outage() {
  python3 - "$1" "$2.log" << 'PY'
import sys
limit, lines = float(sys.argv[1]), [line.split() for line in open(sys.argv[2])]
answered = [float(at) for word, at in lines if word == "ok"]
refused = sum(word == "no" for word, _ in lines)
gap = max((later - earlier for earlier, later in zip(answered, answered[1:])), default=999)
print(f"requests through the address: {len(answered)} answered, {refused} not, the longest gap {gap:.1f} s")
sys.exit(0 if gap <= limit else f"more than {limit} s without an answer")
PY
}
# during SECONDS-ALLOWED NAME SETTLES CMD...: the client asks while that is done, and so many seconds after it
during() {
  local limit=$1 file=$WORK/asking-$2 settles=$3 job rc=0; shift 3
  : > "$file"
  asking "$file" & job=$!
  sleep 2
  "$@" || rc=1
  sleep "$settles"
  rm "$file"
  wait "$job" || true
  outage "$limit" "$file" >> "$WORK/vip-figures" 2>&1 || rc=1
  tail -n 1 "$WORK/vip-figures"
  return "$rc"
}
: > "$WORK/vip-figures"
PROCESSES=$(processes)
check "a control plane is added, and the client sees nothing of it" during 2 join 2 vip vip-3 add-node
check "it is a back-end on both" back_ends_are "10.77.0.11 10.77.0.12 10.77.0.13"
same_processes() { local now; now=$(processes); echo "$PROCESSES -> $now"; [ "$now" = "$PROCESSES" ]; }
check "no process was started anew for that" same_processes
check "a further create changes nothing" vip_nothing_to_do vip-3

say "what the holder loses"
lose() { lab host root "$1" "$2"; }
check "its haproxy is killed" during 5 haproxy 8 lose "$(holder)" 'pkill -9 -x haproxy'
check "exactly one host has the address then" within 10 one_holder
HOLDER=$(holder)
check "its haproxy does not come back" during 5 stopped 8 lose "$HOLDER" 'systemctl stop kubexm-haproxy'
check "the other host has the address then" within 10 holds "$(other "$HOLDER")"
check "haproxy is back, and the address stays where it is" lose "$HOLDER" 'systemctl start kubexm-haproxy'
sleep 6
check "the other host has it still" holds "$(other "$HOLDER")"
check "its keepalived is killed" during 5 keepalived 10 lose "$(holder)" 'pkill -9 -x keepalived'
check "exactly one host has the address after that" within 15 one_holder
check "its network is gone, without a word" during 5 network 2 lab net cut "$(holder)" 12
check "exactly one host has it when the network is back" within 15 one_holder
HOLDER=$(holder)
check "its host is switched off" during 5 off 6 lab host stop "$HOLDER"
check "the other one has it" within 10 holds "$(other "$HOLDER")"
check "the host is back" lab host up "$HOLDER" "$([ "$HOLDER" = l1 ] && echo 10.77.0.21 || echo 10.77.0.22)"
check "and has not taken it back" within 30 one_holder
check "nor later" holds "$(other "$HOLDER")"
HOLDER=$(holder)
cut_off() { lab host root "$1" 'iptables -I OUTPUT -d 10.77.0.11,10.77.0.12,10.77.0.13 -p tcp --dport 6443 -j REJECT'; }
iptables_there() { lab host root "$HOLDER" 'command -v iptables nft'; }
iptables_there > /dev/null || cut_off() { lab host root "$1" 'for to in 11 12 13; do ip route add prohibit 10.77.0.$to/32; done'; }
mended() { lab host root "$1" 'for to in 11 12 13; do ip route del prohibit 10.77.0.$to/32 || true; done; iptables -F OUTPUT 2> /dev/null || true'; }
check "it reaches no API server, and its haproxy lives" during 12 api 10 cut_off "$HOLDER"
check "the other one has the address" within 10 holds "$(other "$HOLDER")"
mended "$HOLDER"
both() { lab host stop l1 && lab host stop l2 && lab host up "${BALANCERS[@]}"; }
check "both are switched off and come back" both
check "exactly one has it, and it answers" within 60 answers
check "exactly one" one_holder
cat "$WORK/vip-figures"

say "fewer control planes, and none"
PROCESSES=$(processes)
check "a control plane leaves, and the client sees nothing of it" during 2 leave 2 vip vip-3 delete-node n3
check "it is a back-end of nobody" back_ends_are "10.77.0.11 10.77.0.12"
check "no process was started anew for that, either" same_processes
check "the cluster is reset" vip vip-3 reset
check "every host is as it was before" as_before
lab host down --all
HOME_NAME=home
