# shellcheck shell=bash
# tier: long
# seconds: 420
# needs: lab stock-tools
# Members of an etcd of its own come and go while the cluster runs: one is lost for good, deleted and added again on a new machine of its
# name; one that works leaves, and its host is as it was before; one that does not start is rolled back.
. "$ROOT/tests/e2e/fleet.sh"
say "members of etcd come and go"
HOME_NAME=home-members
FLEET_YAML=$WORK/members.yaml
FLEET_FILE=$WORK/members.tar.zst
lab host down --all
fleet_hosts whole
states before
lab cluster-yaml --control-planes 1 --sudo-password "$SUDO_PASSWORD" "${FLEET_ADDRESSES[@]}" |
  sed 's|roleGroups: .*|roleGroups: {etcd: [n1, n2, n3], master: [n1], worker: [n1]}|; s|etcd: {type: kubeadm}|etcd: {type: kubexm}|' > "$FLEET_YAML"
check "a bundle with etcd itself is built" fleet_bundle
[ "$HELD" = 1 ] || return 0
check "one control plane and two hosts of etcd become a cluster" fleet_create
[ "$HELD" = 1 ] || return 0

member() {
  local pki=/etc/kubexm/etcd host=$1; shift
  lab host root "$host" etcdctl --endpoints https://127.0.0.1:2379 --cacert $pki/ca.crt --cert $pki/client.crt --key $pki/client.key "$@"
}
# members_are HOST NAMES: as etcd on that host has them, with a vote and healthy
members_are() {
  local list; list=$(member "$1" member list) || return 1
  echo "$list"
  [ "$(awk -F', ' '$2 == "started" && $6 == "false" { print $3 }' <<< "$list" | sort | tr '\n' ' ')" = "$2 " ] &&
    [ "$(wc -l <<< "$list")" = "$(wc -w <<< "$2")" ] && member "$1" endpoint health --cluster
}
# known SERVERS: to the API server as it runs, to kubeadm in the cluster, and in its file
known() {
  local url kubeadm
  # shellcheck disable=SC2016  # for the host's shell
  lab host root n1 'tr "\0" "\n" < /proc/$(pgrep -x kube-apiserver)/cmdline' | tee /dev/stderr | grep -qx -- "--etcd-servers=$1" || return 1
  kubeadm=$(kubectl_on n1 -n kube-system get configmap kubeadm-config -o jsonpath='{.data.ClusterConfiguration}')
  for url in ${1//,/ }; do
    grep -q -- "- $url\$" <<< "$kubeadm" && lab host root n1 grep -q -- "- $url\$" /etc/kubexm/kubeadm.yaml || { echo "no $url"; return 1; }
  done
  [ "$(grep -c -- '- https://.*:2379$' <<< "$kubeadm")" = "$(tr ',' '\n' <<< "$1" | wc -l)" ]
}
ALL=https://10.77.0.11:2379,https://10.77.0.12:2379,https://10.77.0.13:2379
TWO=https://10.77.0.11:2379,https://10.77.0.12:2379
began() { lab host root "$1" systemctl show -p InvocationID --value kubexm-etcd; }
BEGAN="$(began n1) $(began n2)"
not_restarted() { [ "$(began n1) $(began n2)" = "$BEGAN" ]; }
of_members() { fleet "$1" -f "$FLEET_YAML" -y --accept-new-host-keys "${@:2}"; }
check "three members are known" known "$ALL"
check "an object is made" kubectl_on n1 create configmap kept --from-literal=a=1

check "a member's host is lost" lab host down n3
check "it is deleted while it is away" exits 72 of_members delete-node n3 --unreachable skip
check "etcd has the other two" members_are n1 "n1 n2"
check "and nobody asks for it any more" known "$TWO"
anew() { lab host up "$1" "$2" --sudo-password "$SUDO_PASSWORD" && lab in-net ssh-keygen -f "$WORK/$HOME_NAME/known_hosts" -R "$2"; }
check "a new machine of its name comes" anew n3 10.77.0.13
check "a create names how it becomes a member" says 53 "add-node" fleet_create
# Nothing of a member that does not start may stay, neither there nor in etcd's list.
started_late() { lab host root n3 'mkdir -p /etc/systemd/system/kubexm-etcd.service.d && printf "[Service]\nExecStartPre=/bin/false\n" > /etc/systemd/system/kubexm-etcd.service.d/broken.conf && systemctl daemon-reload'; }
check "its service cannot start" started_late
check "a member that does not start is rolled back" exits 70 of_members add-node n3 --on-failure rollback
check "etcd has the other two after it" members_are n1 "n1 n2"
check "and the API server asks them" known "$TWO"
ready_again() { lab host root n3 'rm -r /etc/systemd/system/kubexm-etcd.service.d; systemctl daemon-reload'; }
check "its service can start" ready_again
one_state fresh n3
check "it becomes a member" of_members add-node n3
check "etcd has three members again" members_are n3 "n1 n2 n3"
check "which everybody knows" known "$ALL"
check "and the others were not restarted" not_restarted
check "what was there is there" kubectl_on n1 get configmap kept
check "every pod runs" within 90 all_running n1
check "a create has nothing to do" fleet_changes_nothing

check "a member that works leaves" of_members delete-node n3
check "etcd has the other two then" members_are n2 "n1 n2"
check "which everybody knows, too" known "$TWO"
left() { one_state now n3; same_state fresh-n3 now-n3; }
check "its host is as it was before" left
check "it comes back" of_members add-node
check "as a member" members_are n1 "n1 n2 n3"
check "that everybody knows" known "$ALL"
check "without a restart of the others" not_restarted
off() { lab host stop n2; }
writes() { kubectl_on n1 create configmap "$1" --from-literal=a=1; }
check "another member's host is powered off" off
check "the API goes on and writes: the new one has a vote" within 120 writes without-n2
check "it is back" lab host up n2 10.77.0.12
check "and a create has nothing to do" within 60 fleet_changes_nothing
cp "$WORK/fresh-n3" "$WORK/before-n3"
check "the cluster is reset" install reset -f "$FLEET_YAML" -y
check "every host is as it was before it" as_before
lab host down --all
HOME_NAME=home
