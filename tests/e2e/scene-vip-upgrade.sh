# shellcheck shell=bash
# tier: long
# seconds: 700
# needs: lab keepalived
# Three control planes and a worker behind keepalived and haproxy of two other hosts get the next patch version, every node drained. Clients
# ask all the time: the API through the address, ten times a second, and a Deployment from the worker. No program of the load balancers
# starts anew for it. With two control planes the API was away for 39 s in the turn of the second one: one member of
# two is no majority.
say "an upgrade behind an address"
HOME_NAME=home-vip-upgrade
KIND=kubexm-kh PROXY=haproxy
. "$ROOT/tests/e2e/vip.sh"
. "$ROOT/tests/e2e/upgrade.sh"
vip_files
check "a bundle has keepalived and haproxy" vip_bundle
[ "$HELD" = 1 ] || return 0
NEXT_YAML=$WORK/vip-next.yaml
NEXT_FILE=$WORK/vip-next.tar.zst
next_bundle() {
  sed "s/version: v$LAB_K8S\$/version: v$LAB_K8S_NEXT/" "$WORK/vip-3.yaml" > "$NEXT_YAML"
  "$BUNDLE" build -f "$NEXT_YAML" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$NEXT_FILE"
}
check "and one of v$LAB_K8S_NEXT is built" next_bundle
[ "$HELD" = 1 ] || return 0
vip_hosts
vip_comes_up 3 || return 0
check "a Deployment answers requests" web_answers

upgrade() { install upgrade --bundle "$NEXT_FILE" -f "$NEXT_YAML" --allow-unsigned --accept-new-host-keys -y "$@"; }
PROCESSES=$(processes)
asking web n4
check "it is upgraded, and a client of the address is answered again each time" during upgrade 5 upgrade --always-drain
ended_asking n4
check "the Deployment has answered every request" answered web 0
check "every kubelet has the new version" kubelets_are "$LAB_K8S_NEXT"
check "and every API server, controller manager and scheduler" static_pods_are "$LAB_K8S_NEXT"
check "every node is Ready" within 180 vip_ready 4
check "every pod runs" within 180 all_running n1
check "no process of the load balancers was started anew" same_processes
check "exactly one host has the address" one_holder
check "the worker asks through it" within 60 through
nothing_done() {
  upgrade --json > "$WORK/vip-upgraded-again.jsonl" || { tail -n 3 "$WORK/vip-upgraded-again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/vip-upgraded-again.jsonl"
}
check "a second upgrade changes nothing" nothing_done
cat "$WORK/vip-figures" "$WORK/upgrade-figures"
lab host down --all
HOME_NAME=home
