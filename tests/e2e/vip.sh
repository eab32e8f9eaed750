# shellcheck shell=bash
# What the scenes of a load balancer of ours share: keepalived with $PROXY ($KIND) on two hosts that are nothing else, before three control
# planes. A client asks through the address all the time.
. "$ROOT/tests/e2e/host.sh"
. "$ROOT/tests/e2e/fleet.sh"
# shellcheck disable=SC2034  # the fleet's functions use it
FLEET=(n1 n2 n3 n4 l1 l2)
VIP=10.77.0.100
BALANCERS=(l1 10.77.0.21 l2 10.77.0.22)

# vip_yaml CONTROL-PLANES VIP HOST ADDRESS...
vip_yaml() {
  local planes=$1 vip=$2; shift 2
  lab cluster-yaml --control-planes 1 "$@" "${BALANCERS[@]}" |
    sed "s|roleGroups: .*|roleGroups: {master: [$planes], worker: [n4], loadbalancer: [l1, l2]}|; s|bundle: {|bundle: {os: [debian-12], |"
  echo "  loadBalancer: {mode: external, external: {type: $KIND}, vip: $vip}"
}
# vip_files: vip-2.yaml and vip-3.yaml, with so many control planes
vip_files() {
  vip_yaml "n1, n2" $VIP n1 10.77.0.11 n2 10.77.0.12 n4 10.77.0.14 > "$WORK/vip-2.yaml"
  vip_yaml "n1, n2, n3" $VIP n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13 n4 10.77.0.14 > "$WORK/vip-3.yaml"
}
vip_bundle() { "$BUNDLE" build -f "$WORK/vip-3.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/vip.tar.zst"; }
# carried PACKAGE...
carried() {
  local package
  "$BUNDLE" inspect --json "$WORK/vip.tar.zst" > "$WORK/vip.json" || return 1
  for package in "$@"; do grep -q "package/debian-12/$package" "$WORK/vip.json" || { echo "no $package"; return 1; }; done
}
vip_hosts() {
  lab host up n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13 n4 10.77.0.14
  lab host up "${BALANCERS[@]}" --bare
  states before
}
# vip YAML VERB ARGS...
vip() { install "$2" --bundle "$WORK/vip.tar.zst" -f "$WORK/$1.yaml" --allow-unsigned --accept-new-host-keys -y "${@:3}"; }
vip_nothing_to_do() {
  vip "$1" create --json > "$WORK/again.jsonl" || { tail -n 3 "$WORK/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again.jsonl"
}
vip_ready() { [ "$(kubectl_on n1 get nodes --no-headers | grep -c ' Ready ')" = "$1" ]; }

# announced CMD...: while a machine outside of the cluster announces the router id of the address to everybody in the network (VRRP)
announced() {
  local job rc=0 file=$WORK/announcing
  : > "$file"
  lab in-net python3 - "$file" << 'PY' &
import os, socket, sys, time
routers = socket.socket(socket.AF_INET, socket.SOCK_RAW, 112)
routers.bind(("10.77.0.1", 0))
routers.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("10.77.0.1"))
announcement = bytes([0x31, 100, 100, 1, 0, 100, 0, 0]) + socket.inet_aton("10.77.0.77")
while os.path.exists(sys.argv[1]):
    routers.sendto(announcement, ("224.0.0.18", 0))
    time.sleep(0.5)
PY
  job=$!
  "$@" || rc=1
  rm "$file"
  wait "$job" || rc=1
  return "$rc"
}
has_it() { lab host root "$1" ip -4 -o address show | grep -qF " $VIP/"; }
holder() { local host; for host in l1 l2; do ! has_it "$host" 2> /dev/null || echo "$host"; done; }
one_holder() { local found; found=$(holder); echo "holders: $found"; [ "$(wc -w <<< "$found")" = 1 ]; }
other() { if [ "$1" = l1 ]; then echo l2; else echo l1; fi; }
holds() { [ "$(holder)" = "$1" ]; }
answers() { lab in-net curl -sk -f -m 2 -o /dev/null "https://$VIP:6443/readyz"; }
through() { lab host root n4 /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/kubelet.conf --request-timeout=3s get --raw /readyz && lab host root n4 "ss -Htn state established dport = :6443" | grep -qF "$VIP:6443"; }
bare() { lab host root "$1" "systemctl is-active kubexm-$PROXY kubexm-keepalived && ! ls -d /usr/local/bin/kube{let,adm,ctl} /usr/local/bin/containerd /etc/kubernetes 2> /dev/null | grep ."; }
off() { ! lab host root "$1" "systemctl is-enabled $PROXY keepalived" | grep -x enabled; }
vip_status() {
  install status -f "$WORK/vip-3.yaml" > "$WORK/vip-status" || true
  grep "$(holder) .*has the address" "$WORK/vip-status" && grep "$(other "$(holder)") .*standby" "$WORK/vip-status"
}
# vip_comes_up [3]: a cluster of two control planes, or of three, or nothing
vip_comes_up() {
  local planes=${1:-2}
  say "a cluster behind the address"
  check "$planes control planes come up behind it" vip "vip-$planes" create
  [ "$HELD" = 1 ] || return 1
  check "every node is Ready" within 180 vip_ready $((planes + 1))
  check "exactly one host has the address" within 60 one_holder
  check "the API answers through it" within 60 answers
  check "the worker asks through it" within 60 through
  check "its hosts have neither kubelet nor runtime (l1)" bare l1
  check "its hosts have neither kubelet nor runtime (l2)" bare l2
  check "the distribution's own units are off" off l1
  check "status shows who has it" vip_status
  check "a second create changes nothing" vip_nothing_to_do "vip-$planes"
}

processes() { local host; for host in l1 l2; do lab host root $host systemctl show -P MainPID kubexm-$PROXY kubexm-keepalived; done | tr '\n' ' '; }
same_processes() { local now; now=$(processes); echo "$PROCESSES -> $now"; [ "$now" = "$PROCESSES" ]; }
# back_ends_are ADDRESSES: what back_ends of the scene says of each host
back_ends_are() { local host found; for host in l1 l2; do found=$(back_ends $host); echo "$host: $found"; [ "$found" = "$1 " ] || return 1; done; }

# asking_the_address FILE: a client of the API until that file is gone; a new connection each time
asking_the_address() {
  lab in-net bash -c "while [ -e $1 ]; do
    if curl -sk -f -m 1 -o /dev/null https://$VIP:6443/readyz; then echo ok \$(date +%s.%N); else echo no \$(date +%s.%N); fi
    sleep 0.1; done" > "$1.log"
}
# answered_again FILE: so were the client's last ten requests
answered_again() { [ "$(tail -n 10 "$1.log" | grep -c '^ok')" = 10 ]; }
# outage FILE: what the client saw. How long the gap was depends on what else the machine does: tests/bench/vip.sh measures it. More
# than a minute is none of a fail-over.
outage() {
  python3 - "$1.log" << 'PY'
import sys
limit, lines = 60, [line.split() for line in open(sys.argv[1])]
answered = [float(at) for word, at in lines if word == "ok"]
refused = sum(word == "no" for word, _ in lines)
gap = max((later - earlier for earlier, later in zip(answered, answered[1:])), default=999)
print(f"requests through the address: {len(answered)} answered, {refused} not, the longest gap {gap:.1f} s")
sys.exit(0 if gap <= limit else f"more than {limit} s without an answer")
PY
}
: > "$WORK/vip-figures"
# during NAME SETTLES CMD...: the client asks while that is done, so many seconds after it, and until it is answered again
during() {
  local file=$WORK/asking-$1 settles=$2 job rc=0; shift 2
  : > "$file"
  asking_the_address "$file" & job=$!
  sleep 2
  "$@" || rc=1
  sleep "$settles"
  within 60 answered_again "$file" || rc=1
  rm "$file"
  wait "$job" || true
  outage "$file" >> "$WORK/vip-figures" 2>&1 || rc=1
  tail -n 1 "$WORK/vip-figures"
  return "$rc"
}

lose() { lab host root "$1" "$2"; }
# loses_programs: kills that both proxies are to outlive
loses_programs() {
  local holder
  check "its $PROXY is killed" during "$PROXY" 8 lose "$(holder)" "pkill -9 -x $PROXY"
  check "exactly one host has the address then" within 60 one_holder
  holder=$(holder)
  check "its $PROXY does not come back" during stopped 8 lose "$holder" "systemctl stop kubexm-$PROXY"
  check "the other host has the address then" within 60 holds "$(other "$holder")"
  check "$PROXY is back, and the address stays where it is" lose "$holder" "systemctl start kubexm-$PROXY"
  sleep 6
  check "the other host has it still" holds "$(other "$holder")"
  check "its keepalived is killed" during keepalived 10 lose "$(holder)" 'pkill -9 -x keepalived'
  check "exactly one host has the address after that" within 60 one_holder
}
# loses_the_api: the holder reaches no API server, and its proxy lives
loses_the_api() {
  local holder
  holder=$(holder)
  check "it reaches no API server, and its $PROXY lives" during api 10 cut_off "$holder"
  check "the other one has the address" within 60 holds "$(other "$holder")"
  mended "$holder"
}
cut_off() {
  if lab host root "$1" 'command -v iptables nft' > /dev/null; then
    lab host root "$1" 'iptables -I OUTPUT -d 10.77.0.11,10.77.0.12,10.77.0.13 -p tcp --dport 6443 -j REJECT'
  else
    lab host root "$1" 'for to in 11 12 13; do ip route add prohibit 10.77.0.$to/32; done'
  fi
}
mended() { lab host root "$1" 'for to in 11 12 13; do ip route del prohibit 10.77.0.$to/32 || true; done; iptables -F OUTPUT 2> /dev/null || true'; }
