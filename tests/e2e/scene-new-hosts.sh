# shellcheck shell=bash
# tier: unproven
# seconds: 400
# needs: lab packages
# starts-from: fleet
# All hosts of a cluster are gone. Its backup makes it again on new ones, two of them with other names and addresses; where kubeadm was
# killed in the middle, the run goes on.
. "$ROOT/tests/e2e/fleet.sh"
say "a backup on new hosts"
HOME_NAME=home-new-hosts
check "the fleet is up again, for its backup" start_from fleet
[ "$HELD" = 1 ] || return 0
write_fleet_yaml with_packages
BACKUPS=$WORK/new-hosts-backups
rm -rf "$BACKUPS"
check "objects are made" kubectl_on n1 create configmap kept --from-literal=a=1
check "a backup is made" install backup --to "$BACKUPS" -f "$FLEET_YAML" --accept-new-host-keys
BACKUP=$(find "$BACKUPS" -mindepth 1 -maxdepth 1 -name 'lab-*')
ca_of() { lab host root "$1" sha256sum /etc/kubernetes/pki/ca.crt /etc/kubernetes/pki/sa.pub /etc/kubernetes/pki/etcd/ca.crt; }
ca_of n1 > "$WORK/authorities-before"
anew() { fleet create -f "$FLEET_YAML" --from-backup "$BACKUP" -y --accept-new-host-keys "$@"; }
check "on hosts that have it, it is refused" says 53 "is in this cluster already" anew
check "every host is lost" lab host down --all

FLEET=(m1 n2 m3)
FLEET_ADDRESSES=(m1 10.77.0.14 n2 10.77.0.12 m3 10.77.0.15)
check "three new ones are there" lab host up "${FLEET_ADDRESSES[@]}" --bare --sudo-password "$SUDO_PASSWORD"
with_time_of_m1() { with_packages 'ntpServers: [m1]'; }
write_fleet_yaml with_time_of_m1
check "the old key of the second is forgotten" lab in-net ssh-keygen -f "$WORK/$HOME_NAME/known_hosts" -R 10.77.0.12
sed 's/name: lab}/name: other}/' "$FLEET_YAML" > "$WORK/other.yaml"
check "for a cluster of another name it is refused" says 53 "it is a backup of cluster lab" fleet create -f "$WORK/other.yaml" --from-backup "$BACKUP" -y --accept-new-host-keys
check "and nothing was changed" exits 1 lab host root m1 'test -e /etc/kubexm'

# kubeadm is killed in the middle of its init, with the data of the backup in place.
in_the_middle() { lab host root m1 'test -e /var/lib/etcd/member && pgrep -x kubeadm > /dev/null'; }
killed() {
  local job code=0
  anew --on-failure keep > "$WORK/anew.log" 2>&1 & job=$!
  within 300 in_the_middle || { tail -n 20 "$WORK/anew.log"; return 1; }
  sleep 4
  lab host root m1 pkill -KILL -x kubeadm || return 1
  wait "$job" || code=$?
  [ "$code" = 70 ] || { tail -n 20 "$WORK/anew.log"; echo "exit code $code"; return 1; }
}
check "kubeadm is killed while the first control plane starts" killed
check "the run goes on" install resume
nodes_are() {
  local nodes; nodes=$(kubectl_on m1 get nodes --no-headers -o custom-columns=:.metadata.name | tr '\n' ' ')
  echo "nodes: $nodes"
  [ "$nodes" = "$1 " ]
}
check "its nodes are the new ones" nodes_are "m1 m3 n2"
ready_now() { [ "$(kubectl_on m1 get nodes --no-headers | grep -c ' Ready ')" = 3 ]; }
check "every node is Ready" within 180 ready_now
check "what was there at the backup is there" kubectl_on m1 get configmap kept
same_authorities() { ca_of "$1" > "$WORK/authorities-now" && same "$WORK/authorities-before" "$WORK/authorities-now"; }
check "its authorities are those of the backup" same_authorities m1
check "on the other control plane as well" same_authorities n2
members() { kubectl_on m1 -n kube-system exec etcd-m1 -- etcdctl --cacert /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/server.crt --key /etc/kubernetes/pki/etcd/server.key member list; }
both() { [ "$(members | tee /dev/stderr | grep -c started)" = 2 ]; }
check "etcd has both members" both
check "every pod runs" within 240 all_running m1
check "a create has nothing to do" fleet_changes_nothing
check "another backup of it is made" install backup --to "$BACKUPS" -f "$FLEET_YAML"
check "the cluster is reset" fleet reset -f "$FLEET_YAML" -y
FLEET=(n1 n2 n3)
FLEET_ADDRESSES=(n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13)
lab host down --all
HOME_NAME=home
