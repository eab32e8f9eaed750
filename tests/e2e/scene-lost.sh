# shellcheck shell=bash
# tier: long
# seconds: 560
# needs: lab
# Of three control planes one is lost and installed anew, then the first one, which serves the registry: each comes back from the same bundle,
# as docs/operations/nodes.md says ("A control plane that was lost"), while the cluster runs on.
. "$ROOT/tests/e2e/fleet.sh"
say "a control plane that was lost"
HOME_NAME=home-lost
FLEET_YAML=$WORK/lost.yaml
FLEET_FILE=$WORK/lost.tar.zst
lab host down --all
fleet_up whole
lab cluster-yaml --control-planes 3 --sudo-password "$SUDO_PASSWORD" "${FLEET_ADDRESSES[@]}" > "$FLEET_YAML"
check "a bundle is built for three control planes" fleet_bundle
[ "$HELD" = 1 ] || return 0
check "they become a cluster" fleet_create
[ "$HELD" = 1 ] || return 0
check "objects are made" kubectl_on n2 create configmap kept --from-literal=a=1

# members_are HOST NAMES: as etcd on that host has them
members_are() {
  local members pki=/etc/kubernetes/pki/etcd
  members=$(kubectl_on "$1" -n kube-system exec "etcd-$1" -- etcdctl --cacert $pki/ca.crt --cert $pki/server.crt --key $pki/server.key member list)
  echo "$members"
  [ "$(awk -F', ' '$2 == "started" { print $3 }' <<< "$members" | sort | tr '\n' ' ')" = "$2 " ]
}
check "etcd has three members" members_are n2 "n1 n2 n3"
# anew HOST ADDRESS: its disk is gone, and with it its SSH keys
lose() { lab host down "$1"; }
anew() { lab host up "$1" "$2" --sudo-password "$SUDO_PASSWORD"; }
forget_key() { lab in-net ssh-keygen -f "$WORK/$HOME_NAME/known_hosts" -R "$1"; }
lost() { fleet "$1" -f "$FLEET_YAML" -y --accept-new-host-keys "${@:2}"; }
every_node_ready() { [ "$(kubectl_on "$1" get nodes --no-headers | tee /dev/stderr | grep -c ' Ready ')" = 3 ]; }
kept() { kubectl_on "$1" get configmap "$2"; }

check "the third one is lost" lose n3
check "and installed anew" anew n3 10.77.0.13
check "its new key is refused, and the command that forgets the old one is named" says 51 "ssh-keygen -f" lost add-node
check "the old key is forgotten" forget_key 10.77.0.13
check "it is not added beside its own member" says 20 "etcd has a member of that name or address already" lost add-node
check "what is left of it is deleted" lost delete-node n3
check "etcd has two members" members_are n2 "n1 n2"
check "it is added from the same bundle" lost add-node
check "etcd has three members again" members_are n3 "n1 n2 n3"
check "every node is Ready" within 180 every_node_ready n3
check "what was there is there" kept n3 kept

check "the first one is lost" lose n1
answers() { kubectl_on n2 create configmap without-n1 --from-literal=a=1; }
check "the API answers without it" within 60 answers
check "with the same cluster.yaml it is not added" says 50 "n1" lost add-node
not_ready() { kubectl_on n2 get nodes --no-headers | grep -q '^n1 .*NotReady'; }
check "the cluster sees that it is away" within 120 not_ready
sed -i 's|master: \[n1, n2, n3\]|master: [n2, n1, n3], registry: [n1]|' "$FLEET_YAML"
check "what is left of it is deleted while it is away" exits 72 lost delete-node n1 --unreachable skip
check "etcd has the other two" members_are n2 "n2 n3"
check "it is installed anew" anew n1 10.77.0.11
check "its old key is forgotten" forget_key 10.77.0.11
check "it is added, with the registry" lost add-node
check "etcd has all three" members_are n1 "n1 n2 n3"
check "every node is Ready again" within 180 every_node_ready n1
check "what was made meanwhile is there" kept n1 without-n1
check "its registry serves" depot_back n1
check "every pod runs" within 180 all_running n1
check "a create follows cluster.yaml's new order" fleet_create
check "and then has nothing to do" fleet_changes_nothing
check "the cluster is reset" install reset -f "$FLEET_YAML" -y
lab host down --all
HOME_NAME=home
