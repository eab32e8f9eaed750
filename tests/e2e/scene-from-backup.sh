# shellcheck shell=bash
# tier: long
# seconds: 480
# needs: lab
# A cluster is made again from its backup, on hosts of other names and addresses, once those of before are gone.
. "$ROOT/tests/e2e/fleet.sh"
say "a cluster from its backup"
HOME_NAME=home-from-backup
FLEET=(n1 n2)
FLEET_ADDRESSES=(n1 10.77.0.11 n2 10.77.0.12)
FLEET_YAML=$WORK/from-backup.yaml
FLEET_FILE=$WORK/from-backup.tar.zst
NEW_YAML=$WORK/from-backup-new.yaml
BACKUPS=$WORK/backups
rm -rf "$BACKUPS"
lab host down --all
fleet_up whole
lab cluster-yaml --control-planes 1 --sudo-password "$SUDO_PASSWORD" "${FLEET_ADDRESSES[@]}" > "$FLEET_YAML"
check "a bundle is built for a control plane and a worker" fleet_bundle
[ "$HELD" = 1 ] || return 0
check "they become a cluster" fleet_create
[ "$HELD" = 1 ] || return 0

web() {
  cat << 'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "registry.k8s.io/pause:3.10.1"}]
YAML
}
made() {
  web | kubectl_on n1 apply -f - && kubectl_on n1 create secret generic kept --from-literal=a=secret-1 &&
    kubectl_on n1 create configmap kept --from-literal=a=1 && kubectl_on n1 rollout status deployment/web --timeout=120s
}
check "a Deployment, a Secret and a ConfigMap are made" made
ca_of() { lab host root "$1" sha256sum /etc/kubernetes/pki/ca.crt | cut -d' ' -f1; }
id_of() { lab host root "$1" cat /var/lib/kubexm/stamp.json | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])'; }
CA=$(ca_of n1) ID=$(id_of n1)
check "a backup is made" install backup --to "$BACKUPS" -f "$FLEET_YAML" --accept-new-host-keys
BACKUP=$(find "$BACKUPS" -mindepth 1 -maxdepth 1 -name 'lab-*')

# Other names, other addresses.
FLEET=(m1 m2)
FLEET_ADDRESSES=(m1 10.77.0.21 m2 10.77.0.22)
lab cluster-yaml --control-planes 1 --sudo-password "$SUDO_PASSWORD" "${FLEET_ADDRESSES[@]}" > "$NEW_YAML"
check "two fresh hosts are there" lab host up "${FLEET_ADDRESSES[@]}" --sudo-password "$SUDO_PASSWORD"
states before
from_backup() { fleet create -f "$1" --from-backup "$2" -y --accept-new-host-keys "${@:3}"; }
check "while the API server of before answers it is refused" says 53 "10.77.0.11 port 6443" from_backup "$NEW_YAML" "$BACKUP"
check "the cluster of before is untouched" kubectl_on n1 get configmap kept
check "the hosts of before are gone" lab host down n1 n2

# Each by its name, before a host is contacted.
copy_of() { rm -rf "$WORK/bad" && cp -a "$BACKUP" "$WORK/bad"; }
cut_off() { copy_of && truncate -s -1 "$WORK/bad/archive.age" && says 57 "was cut off" from_backup "$NEW_YAML" "$WORK/bad"; }
for_others() {
  mv "$WORK/$HOME_NAME/identity" "$WORK/identity" || return 1
  local rc=0
  says 57 "and not for the identity of this home" from_backup "$NEW_YAML" "$BACKUP" || rc=1
  mv "$WORK/identity" "$WORK/$HOME_NAME/identity"
  return "$rc"
}
# other SED TEXT: cluster.yaml is another one
other() { sed "$1" "$NEW_YAML" > "$WORK/other.yaml" && says 57 "$2" from_backup "$WORK/other.yaml" "$BACKUP"; }
check "a backup that was cut off is refused" cut_off
check "one that is sealed for others" for_others
check "one of a cluster of another name" other 's/name: lab/name: blue/' "cluster.yaml describes blue"
check "one with another network of Services" \
  other 's|plugin: flannel}|plugin: flannel, serviceCidr: 10.99.0.0/18}|' "spec.network.serviceCidr is 10.99.0.0/18"
check "nothing was put on a host" as_before

interrupted() { says 70 " --from-backup " from_backup "$NEW_YAML" "$BACKUP" --on-failure keep --drill fail:m1/control-plane.authorities; }
check "it is interrupted before the control plane begins" interrupted
plain() { fleet create -f "$NEW_YAML" -y --accept-new-host-keys "$@"; }
check "a create without the backup is refused: it would make an empty cluster" says 53 "is being made from its backup" plain
check "so is a resume, which has no backup" says 2 "create --from-backup" fleet resume -f "$NEW_YAML"
check "the same command continues it" from_backup "$NEW_YAML" "$BACKUP"
[ "$HELD" = 1 ] || return 0

new_nodes() {
  local nodes; nodes=$(kubectl_on m1 get nodes --no-headers); echo "$nodes"
  [ "$(awk '$2 == "Ready" { print $1 }' <<< "$nodes" | tr '\n' ' ')" = "m1 m2 " ] && [ "$(wc -l <<< "$nodes")" = 2 ]
}
check "the nodes are the new ones, and Ready" within 120 new_nodes
secret_is() { [ "$(kubectl_on m1 get secret kept -o 'jsonpath={.data.a}' | base64 -d)" = secret-1 ]; }
check "the Secret is there again" secret_is
check "the ConfigMap too" kubectl_on m1 get configmap kept
web_is_up() {
  local pods; pods=$(kubectl_on m1 get pods -l app=web --no-headers -o custom-columns=:.spec.nodeName,:.status.phase); echo "$pods"
  [ "$(grep -cE '^m[12] +Running$' <<< "$pods")" = 2 ] && [ "$(wc -l <<< "$pods")" = 2 ]
}
check "the Deployment's pods run on the new nodes" within 240 web_is_up
check "every pod runs" within 180 all_running m1
endpoints() {
  local found; found=$(kubectl_on m1 get endpointslices -l kubernetes.io/service-name=kubernetes -o 'jsonpath={.items[*].endpoints[*].addresses[*]}')
  echo "$found"; [ "$found" = 10.77.0.21 ]
}
check "the API's Service has the new control plane alone" within 60 endpoints
members() { kubectl_on m1 -n kube-system exec etcd-m1 -- etcdctl --cacert /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/server.crt --key /etc/kubernetes/pki/etcd/server.key member list; }
one_member() { local all; all=$(members); echo "$all"; [[ $all == *"started, m1, "* ]] && [ "$(wc -l <<< "$all")" = 1 ]; }
check "etcd has one member, of the new name" one_member
same_cluster() { [ "$(ca_of m1) $(id_of m1)" = "$CA $ID" ]; }
check "it has the CA and the id of the cluster of before" same_cluster
check "its certificates are valid" says 0 "none has ended" install certs check -f "$NEW_YAML"
names() { lab host root m1 openssl x509 -in /etc/kubernetes/pki/apiserver.crt -noout -ext subjectAltName | tee /dev/stderr | grep -q "10.77.0.21" && ! lab host root m1 openssl x509 -in /etc/kubernetes/pki/apiserver.crt -noout -ext subjectAltName | grep -q "10.77.0.11"; }
check "that of the API server has the new names" names
leases() { ! kubectl_on m1 -n kube-node-lease get leases --no-headers | grep -qE '^n[12] '; }
check "nothing of the earlier nodes is left" within 60 leases
FLEET_YAML=$NEW_YAML
check "a create has nothing to do" fleet_changes_nothing
check "nor has the same command" from_backup "$NEW_YAML" "$BACKUP"
check "the cluster is reset" install reset -f "$NEW_YAML" -y
check "nothing of it is left" as_before
lab host down --all
HOME_NAME=home
