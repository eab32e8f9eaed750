# shellcheck shell=bash
# tier: hand
# seconds: 420
# needs: lab
# A DNS cache on two hosts: it answers pods on the address of cluster DNS, survives a reboot, goes and comes back by create; without it pods ask CoreDNS. A
# reset leaves nothing of it.
#
# No module proxy has kubernetes/dns. Build it (`CGO_ENABLED=0 go build -mod=vendor ./cmd/node-cache` in its repository, at a tag of manifests/data/features/nodelocaldns.yaml), make
# its image in the lab's folder of images, with the iptables of Debian as the lab's kube-proxy has it, and run the scene by its name:
#   name=registry.k8s.io/dns/k8s-dns-node-cache base=~/.cache/kubexm-lab/base in=/usr/src/dns
#   tests/lab/mkimg.py ~/.cache/kubexm-lab/oci/$name $name:1.26.4 --file $in/node-cache:/node-cache:755 --entrypoint '["/node-cache"]' \
#     --closure $base:/usr/sbin/xtables-nft-multi --glob "$base:/usr/lib/x86_64-linux-gnu/xtables/*.so" --file $base/etc/protocols:/etc/protocols:644 \
#     --symlink /usr/sbin/iptables:xtables-nft-multi --symlink /usr/sbin/iptables-save:xtables-nft-multi --symlink /usr/sbin/iptables-restore:xtables-nft-multi \
#     --symlink /usr/sbin/ip6tables:xtables-nft-multi >> ~/.cache/kubexm-lab/oci/images.tsv
. "$ROOT/tests/e2e/network.sh"
say "a DNS cache on two hosts"
HOME_NAME=home-nodelocaldns
FLEET=(n1 n2)
OWN=169.254.25.10
lab cluster-yaml n1 10.77.0.11 n2 10.77.0.12 > "$WORK/uncached.yaml"
sed 's/^    version: .*/&\n    nodelocaldns: {}/' "$WORK/uncached.yaml" > "$WORK/cached.yaml"

# A kernel without links of type dummy (this machine's, it may be) lets the cache make none: it takes one that is there by its name, of any type.
# shellcheck disable=SC2016
links() {
  lab host root "$1" 'ip link add dummy-here type dummy 2> /dev/null && exec ip link del dummy-here
    systemd-run -q --unit link-for-cache sh -c "while sleep 1; do ip link show nodelocaldns > /dev/null 2>&1 || ip link add nodelocaldns type bridge; done"'
}
no_links() { lab host root "$1" 'systemctl stop link-for-cache 2> /dev/null; ip link del nodelocaldns 2> /dev/null; true'; }
# requests HOST: how many the cache of that host has answered
requests() { lab host root "$1" "curl -sS -m 5 http://127.0.0.1:9253/metrics" | awk '/^coredns_dns_requests_total/ {sum += $NF} END {print sum + 0}'; }
# pods of the hosts ask CoreDNS' own name by the address of cluster DNS
ask() {
  local host address rc=0
  for host in "${FLEET[@]}"; do
    address=$(kubectl_on n1 get pods -l app=web --field-selector "spec.nodeName=$host" -o 'jsonpath={.items[0].status.podIP}')
    in_pod "$host" "$address" busybox nslookup kube-dns.kube-system.svc.cluster.local 10.233.0.10 | grep -qF 'Address: 10.233.0.10' || { echo "no answer for the pod on $host"; rc=1; }
  done
  return "$rc"
}
web_pods() { across_pods | kubectl_on n1 apply -f - && kubectl_on n1 rollout status daemonset/web --timeout=90s; }
answered_by_cache() {
  local host before
  local -A counted
  for host in "${FLEET[@]}"; do counted[$host]=$(requests "$host"); done
  ask || return 1
  for host in "${FLEET[@]}"; do
    before=${counted[$host]}
    [ "$(requests "$host")" -gt "$before" ] || { echo "the cache of $host was not asked: $before before, and after"; return 1; }
  done
}
untracked() { lab host root "$1" "iptables-save -t raw | grep -F -- '-d 10.233.0.10/32' | grep -F 'NodeLocal DNS Cache'"; }
nothing_of_cache() {
  local host found rc=0
  for host in "$@"; do
    found=$(lab host root "$host" "ip -o addr | grep -F $OWN; ip -o link show nodelocaldns 2> /dev/null; iptables-save | grep -F 'NodeLocal'") || true
    [ -z "$found" ] || { echo "$host: $found"; rc=1; }
  done
  return "$rc"
}
# The stand-in for the link may be there again.
nothing_left_but_links() {
  local host
  for host in n1 n2; do
    ! lab host root "$host" "ip -o addr | grep -F $OWN; iptables-save | grep -F 'NodeLocal'" | grep . || return 1
  done
}
caches() { kubectl_on n1 -n kube-system rollout status daemonset/node-local-dns --timeout=120s; }

check "a bundle has the cache" bundle_of cached
[ "$HELD" = 1 ] || return 0
check "and one has it not" bundle_of uncached
lab host up n1 10.77.0.11 n2 10.77.0.12
states before
for host in n1 n2; do links "$host"; done
check "a cluster of two hosts comes up with a cache on each" install_of cached create
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" within 120 nodes_ready 2
check "pods are there" web_pods
check "their questions are answered by the cache of their node" answered_by_cache
check "and are not tracked" untracked n2
check "a second create changes nothing" nothing_to_do cached
check "pods reach each other across hosts, and a service by its name" across_hosts
booted=$(date -u +%FT%TZ)
check "both hosts reboot" lab host reboot --all
for host in n1 n2; do links "$host"; done
check "every pod runs again" within 240 all_running_since n1 "$booted"
check "pods are there again" web_pods
check "the caches answer again" within 60 answered_by_cache
check "after the reboot a create changes nothing" nothing_to_do cached
check "an upgrade without it in cluster.yaml is refused" says 53 "the cluster has a DNS cache" install_of uncached upgrade
check "a create without it says so, and removes it" says 0 "the DNS cache of every node is removed" install_of uncached create
check "no rule and no address of it is left on the nodes" within 60 nothing_left_but_links
check "pods ask CoreDNS by the same address" ask
check "a second create without it changes nothing" nothing_to_do uncached
check "it comes back by create" install_of cached create
check "pods that ran before are answered by it" answered_by_cache
check "the worker leaves" install_of cached delete-node n2
no_links n2
FLEET=(n2)
check "it is as it was before" as_before
links n2
FLEET=(n1 n2)
check "it comes back" install_of cached add-node
check "the cache runs there, too" caches
check "and answers its pods" within 60 answered_by_cache
for host in n1 n2; do lab host root "$host" 'systemctl stop link-for-cache 2> /dev/null; true'; done
check "the cluster is reset with it" install_of cached reset
check "nothing of the cache is left" nothing_of_cache n1 n2
check "every host is as it was before" as_before
lab host down --all
HOME_NAME=home
