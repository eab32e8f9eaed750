# shellcheck shell=bash
# tier: long
# seconds: 560
# needs: lab stock-tools
# etcd as a service of its own: on the control plane, and on two hosts that are nothing else. One of these has a full disk, one is lost and
# comes back; one whose data is gone does not start as an empty member; a reset leaves nothing. Then a cluster with an etcd of the user's,
# which stays.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/lab/versions.sh"
say "etcd of its own"
HOME_NAME=home-etcd
FLEET_YAML=$WORK/etcd.yaml
FLEET_FILE=$WORK/etcd.tar.zst
fleet_hosts whole
# In memory, so that it can be filled: nothing of it reaches the machine's disk.
lab host disk n2 /var/lib/etcd room
states before
lab cluster-yaml --control-planes 1 --sudo-password "$SUDO_PASSWORD" "${FLEET_ADDRESSES[@]}" |
  sed 's|roleGroups: .*|roleGroups: {etcd: [n1, n2, n3], master: [n1], worker: [n1]}|; s|etcd: {type: kubeadm}|etcd: {type: kubexm, quota: 4Gi}|' > "$FLEET_YAML"
check "a bundle with etcd itself is built" fleet_bundle
[ "$HELD" = 1 ] || return 0
two_members() { sed 's|etcd: \[n1, n2, n3\]|etcd: [n1, n2]|; /name: n3,/d' "$FLEET_YAML" > "$WORK/two.yaml" && says 53 "two members of etcd" fleet create -f "$WORK/two.yaml" -y --accept-new-host-keys; }
check "two members are refused, before any change" two_members
check "one control plane and two hosts of etcd become a cluster" fleet_create
[ "$HELD" = 1 ] || return 0
journal seconds || true

own_etcd() {
  kubectl_on n1 get nodes --no-headers | tee /dev/stderr | grep -c ' Ready ' | grep -qx 1 || return 1
  kubectl_on n1 -n kube-system get pods --no-headers -o custom-columns=:.metadata.name > "$WORK/pods" || return 1
  ! grep -q '^etcd-' "$WORK/pods" || { echo "kubeadm made an etcd"; return 1; }
  # shellcheck disable=SC2016  # for the host's shell
  lab host root n1 'tr "\0" " " < /proc/$(pgrep -x kube-apiserver)/cmdline | grep -q "etcd-servers=https://10.77.0.11:2379,https://10.77.0.12:2379,https://10.77.0.13:2379"'
}
check "the API server uses these members, and kubeadm made none" own_etcd
alone() { lab host root "$1" 'systemctl is-active kubexm-etcd && ! ls -d /usr/local/bin/kube{let,adm,ctl} /usr/local/bin/containerd /etc/kubernetes 2> /dev/null | grep .'; }
check "a host of etcd alone has neither kubelet nor runtime" alone n2
private() { lab host root "$1" 'stat -c "%a %U" /etc/kubexm/etcd/server.key /etc/kubexm/etcd/peer.key /etc/kubexm/etcd/client.key | sort -u | grep -qx "600 root"'; }
check "its keys are root's alone" on_fleet private
# etcdctl HOST ARGS...: as an operator calls it on a member's host
member() {
  local pki=/etc/kubexm/etcd host=$1; shift
  lab host root "$host" etcdctl --endpoints https://127.0.0.1:2379 --cacert $pki/ca.crt --cert $pki/client.crt --key $pki/client.key "$@"
}
three() { member n3 endpoint health --cluster | tee /dev/stderr | grep -c "is healthy" | grep -qx 3; }
check "etcd's own tool finds three healthy members" three
nobody_else() { ! lab host root n2 etcdctl --endpoints https://127.0.0.1:2379 --cacert /etc/kubexm/etcd/ca.crt get x && ! lab host root n2 curl -sk https://127.0.0.1:2379/health; }
check "and nobody without a certificate is let in" nobody_else
# status_is WANTED: names of healthy members
status_is() {
  fleet status -f "$FLEET_YAML" --json > "$WORK/etcd-status.json" || true
  python3 - "$1" "$WORK/etcd-status.json" << 'PY'
import json, sys
facts = json.load(open(sys.argv[2]))["clusters"][0]["facts"]
healthy = " ".join(sorted(one["name"] for one in facts["etcd"] if one["healthy"]))
print(facts["etcd"], facts["gaps"])
sys.exit(0 if healthy == sys.argv[1] and len(facts["etcd"]) == 3 else f"healthy: {healthy}")
PY
}
check "status shows the members" status_is "n1 n2 n3"
check "every pod runs" within 90 all_running n1
check "a second create changes nothing on any host" fleet_changes_nothing

certs() { install certs check -f "$FLEET_YAML" --json; }
of_etcd() {
  local path
  certs > "$WORK/etcd-certs.json" || return 1
  for path in server peer client; do grep -q "/etc/kubexm/etcd/$path.crt" "$WORK/etcd-certs.json" || { echo "no $path"; return 1; }; done
  grep -q /etc/kubexm/etcd-client/client.crt "$WORK/etcd-certs.json"
}
check "certs check names etcd's certificates" of_etcd
check "a renewal has nothing to do" says 0 "nothing to do" install certs renew -f "$FLEET_YAML" -y
# sums: of etcd's certificates on every host, and of the API server's for it
sums() {
  local host
  for host in n1 n2 n3; do lab host root "$host" 'sha256sum /etc/kubexm/etcd/*.crt /etc/kubexm/etcd-client/client.crt 2> /dev/null | grep -v /ca.crt' | sed "s/\$/ $host/"; done
}
sums > "$WORK/etcd-sums-before"
check "all are renewed by force, those of etcd and of the depot too" install certs renew --force -f "$FLEET_YAML" -y
others() { sums > "$WORK/etcd-sums-after"; [ "$(wc -l < "$WORK/etcd-sums-before")" = 10 ] && ! grep -qxFf "$WORK/etcd-sums-before" "$WORK/etcd-sums-after"; }
check "each of etcd's certificates is another one" others
check "etcd's members are healthy with them" three
check "and the API server writes with its own" within 60 kubectl_on n1 create configmap renewed --from-literal=a=1
check "a create has nothing to do after a renewal" fleet_changes_nothing
# The authority of its own, and kubeadm's: under their keys, so the ones of before still verify what the hosts have.
of_etcd_ca() {
  local host
  for host in n1 n2 n3; do lab host root "$host" cat /etc/kubexm/etcd/ca.crt /etc/kubexm/etcd-client/ca.crt 2> /dev/null || true; done
}
one_ca() { of_etcd_ca | csplit -sz -f "$WORK/etcd-ca-" - '/BEGIN CERTIFICATE/' '{*}' && [ "$(sha256sum "$WORK"/etcd-ca-0* | cut -c1-64 | sort -u | wc -l)" = 1 ]; }
check "etcd's authority is one on all hosts" one_ca
cp "$WORK/etcd-ca-00" "$WORK/etcd-ca-before"
STARTED=$(lab host root n2 systemctl show -p ActiveEnterTimestampMonotonic --value kubexm-etcd)
check "authorities are renewed by force" install certs renew --force --authorities -f "$FLEET_YAML" -y
check "etcd's authority is one on all hosts then" one_ca
renewed_ca() {
  ! cmp -s "$WORK/etcd-ca-00" "$WORK/etcd-ca-before" || return 1
  [ "$(openssl x509 -in "$WORK/etcd-ca-00" -noout -pubkey -subject)" = "$(openssl x509 -in "$WORK/etcd-ca-before" -noout -pubkey -subject)" ] || return 1
  lab host root n2 cat /etc/kubexm/etcd/server.crt > "$WORK/etcd-leaf" && openssl verify -CAfile "$WORK/etcd-ca-before" "$WORK/etcd-leaf"
}
check "and another one of the same key, under which the earlier one verifies" renewed_ca
restarted_etcd() { [ "$(lab host root n2 systemctl show -p ActiveEnterTimestampMonotonic --value kubexm-etcd)" != "$STARTED" ]; }
check "a member was started again with it" restarted_etcd
check "etcd's members are healthy with it" three
check "and the API server writes" within 60 kubectl_on n1 create configmap renewed-ca --from-literal=a=1
check "a second one has nothing to do" says 0 "nothing to do" install certs renew --authorities -f "$FLEET_YAML" -y
check "and a create has nothing to do after it" fleet_changes_nothing
check "objects are made" kubectl_on n1 create configmap kept --from-literal=a=1
check "a backup is made" install backup --to "$WORK/etcd-backups" -f "$FLEET_YAML"
verified() { says 0 "is whole" install backup verify "$(find "$WORK/etcd-backups" -mindepth 1 -maxdepth 1 -name 'lab-*' | tail -n 1)"; }
check "it is whole" verified

# What is left of it is less than one more object: etcd ends there, and its unit starts it again and again.
filled() {
  # shellcheck disable=SC2016  # for the host's shell
  lab host root n2 'mount -o remount,size=$(($(df --output=used -B1 /var/lib/etcd | tail -n 1) + 262144)) /var/lib/etcd' || return 1
  kubectl_on n1 create namespace full || return 1
  lab host root n1 'head -c 600000 /dev/urandom | base64 -w 0 > /root/large' || return 1
  local number
  for number in $(seq 40); do
    within 60 kubectl_on n1 -n full create configmap "large-$number" --from-file=/root/large > /dev/null || return 1
    lab host root n2 systemctl is-active --quiet kubexm-etcd || break
  done
  echo "after $number objects"
  lab host root n1 rm /root/large
}
check "a member's disk is filled while the API goes on and writes" filled
check "status shows who is missing then" within 60 status_is "n1 n3"
check "and the API goes on" kubectl_on n1 create configmap without-n2 --from-literal=a=1
emptied() { lab host root n2 'mount -o remount,size=12g /var/lib/etcd; systemctl reset-failed kubexm-etcd; systemctl start kubexm-etcd' && kubectl_on n1 delete namespace full; }
check "its disk has room again" emptied
check "all three are healthy with room" within 60 status_is "n1 n2 n3"

check "a member's host is powered off" lab host stop n3
writes() { kubectl_on n1 create configmap "$1" --from-literal=a=1; }
check "the API goes on and writes" within 60 writes without-n3
check "status shows who is missing" status_is "n1 n2"
check "the host comes back" lab host up n3 10.77.0.13
back() { member n3 get --prefix --keys-only /registry/configmaps/default/without-n3 --consistency=s | grep -q without-n3; }
check "it has what was written meanwhile" within 60 back
check "all three are healthy" within 60 status_is "n1 n2 n3"

lost() { lab host root n2 'systemctl stop kubexm-etcd && mv /var/lib/etcd/member /root/member && ! timeout 20 systemctl start kubexm-etcd && journalctl -u kubexm-etcd -n 30 | grep "has no data of etcd"'; }
check "a member whose data is gone does not start as an empty one" lost
found() { lab host root n2 'mv /root/member /var/lib/etcd/member && systemctl reset-failed kubexm-etcd; systemctl start kubexm-etcd'; }
check "with its data it starts again" found
check "all three are healthy again" within 60 status_is "n1 n2 n3"
# As docs/operations/etcd.md has it.
replaced() {
  local id; id=$(member n1 member list | awk -F', ' '$3 == "n2" { print $1 }')
  [ -n "$id" ] || return 1
  lab host root n2 'systemctl stop kubexm-etcd && rm -r /var/lib/etcd/member' || return 1
  member n1 member remove "$id" && member n1 member add n2 --peer-urls https://10.77.0.12:2380 || return 1
  lab host root n2 'cd /etc/kubexm/etcd && mv formed formed.away && sed -i "s/^initial-cluster-state: .*/initial-cluster-state: existing/" config.yaml && systemctl start kubexm-etcd && mv formed.away formed'
}
check "one whose data is lost for good is added again as documented" replaced
check "it is healthy as well" within 60 status_is "n1 n2 n3"
check "a create puts back what was changed for that" fleet_create
check "a create has nothing to do" fleet_changes_nothing
no_restart() {
  sed 's|quota: 4Gi|quota: 3Gi|' "$FLEET_YAML" > "$WORK/quota.yaml"
  lab host root n3 systemctl stop kubexm-etcd || return 1
  says 70 "without a majority" fleet create -f "$WORK/quota.yaml" -y
}
check "no member is restarted for another setting while one is down" no_restart
check "and it was rolled back: the API answers" within 60 writes not-restarted
check "it is started again" lab host root n3 systemctl start kubexm-etcd
check "all three are healthy now" within 60 status_is "n1 n2 n3"
check "with all of them a create makes the change, one member after the other" fleet create -f "$WORK/quota.yaml" -y
check "and they are healthy" within 60 status_is "n1 n2 n3"
gone() { lab host root n2 mv /etc/kubexm/etcd/formed /root/formed && says 53 "no member of etcd, and the cluster runs with one there" fleet_create; }
check "a host that has lost its member is refused by name" gone
check "it is there again" lab host root n2 mv /root/formed /etc/kubexm/etcd/formed

check "the cluster is reset" install reset -f "$FLEET_YAML" -y
check "every host is as it was before" as_before

# One of the user's, on a host that is not in the cluster.
say "an etcd of the user's"
HOME_NAME=home-their-etcd
FLEET_YAML=$WORK/their-etcd.yaml
FLEET_FILE=$WORK/their-etcd.tar.zst
FLEET=(n1 n3)
PKI=$WORK/etcd-pki
issue() { # issue NAME EXTENSIONS
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$PKI/$1.key" -out "$PKI/$1.csr" -subj "/CN=$1" &&
    printf '%s\n' "$2" > "$PKI/$1.ext" &&
    openssl x509 -req -in "$PKI/$1.csr" -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -CAcreateserial -days 30 -extfile "$PKI/$1.ext" -out "$PKI/$1.crt"
}
their_etcd() {
  rm -rf "$PKI"; mkdir -p "$PKI"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$PKI/ca.key" -out "$PKI/ca.crt" -subj /CN=site-etcd -days 30 || return 1
  issue server $'subjectAltName=IP:10.77.0.12,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth' || return 1
  issue client extendedKeyUsage=clientAuth || return 1
  openssl ecparam -name prime256v1 -genkey -noout -out "$PKI/other.key" || return 1
  lab host root n2 'mkdir -p /root/theirs && cat > /root/theirs/etcd && chmod 755 /root/theirs/etcd' < "$LAB/bin/etcd" || return 1
  lab host root n2 'cat > /root/theirs/etcdctl && chmod 755 /root/theirs/etcdctl' < "$LAB/bin/etcdctl" || return 1
  for file in ca.crt server.crt server.key client.crt client.key; do lab host root n2 "cat > /root/theirs/$file" < "$PKI/$file" || return 1; done
  lab host root n2 'cd /root/theirs && systemd-run --unit theirs /root/theirs/etcd --name theirs --data-dir /root/theirs/data --listen-client-urls https://10.77.0.12:2379 --advertise-client-urls https://10.77.0.12:2379 --cert-file /root/theirs/server.crt --key-file /root/theirs/server.key --client-cert-auth --trusted-ca-file /root/theirs/ca.crt'
}
theirs() { lab host root n2 /root/theirs/etcdctl --endpoints https://10.77.0.12:2379 --cacert /root/theirs/ca.crt --cert /root/theirs/client.crt --key /root/theirs/client.key "$@"; }
check "somebody runs an etcd with certificates of their own" their_etcd
check "it is healthy" within 60 theirs endpoint health
their_yaml() {
  lab cluster-yaml --control-planes 1 --sudo-password "$SUDO_PASSWORD" n1 10.77.0.11 n3 10.77.0.13 |
    sed "s|roleGroups: .*|roleGroups: {master: [n1], worker: [n3]}|
      s|etcd: {type: kubeadm}|etcd: {type: external, externalConfig: {endpoints: [\"https://10.77.0.12:2379\"], caFile: etcd-pki/ca.crt, certFile: etcd-pki/client.crt, keyFrom: {file: $PKI/$1}, prefix: /lab/registry}}|"
}
their_yaml client.key > "$FLEET_YAML"
check "a bundle is built for it" fleet_bundle
[ "$HELD" = 1 ] || return 0
in_bundle() { [ "$(zstd -dcq "$FLEET_FILE" | grep -acF "$(sed -n 2p "$PKI/$1")")" != 0 ]; }
no_key() { in_bundle client.crt && in_bundle ca.crt && ! in_bundle client.key; }
check "it carries the certificates, and not their key" no_key
other_key() { their_yaml other.key > "$WORK/other-key.yaml" && says 53 "10.77.0.12:2379 does not answer" fleet create -f "$WORK/other-key.yaml" -y --accept-new-host-keys; }
check "a key of another certificate is refused, before any change" other_key
theirs put /lab/registry/x y
check "keys of somebody else are refused" says 53 "1 key below /lab/registry" fleet_create
check "and nothing was changed" exits 1 lab host root n1 'test -e /etc/kubexm'
theirs del /lab/registry/x
check "a cluster is made with it" fleet_create
[ "$HELD" = 1 ] || return 0
# Read to its end: one whose reader has gone ends with an error.
keys() {
  local found; found=$(theirs get --prefix --keys-only --limit 3 /lab/registry/namespaces/) || return 1
  echo "$found"
  [[ $found == */lab/registry/namespaces/default* ]]
}
check "its objects are there, below their prefix" keys
check "every pod runs" within 120 all_running n1
their_status() { says 0 '"name":"theirs"' fleet status -f "$FLEET_YAML" --json; }
check "status shows its member" their_status
check "a second create changes nothing on any host" fleet_changes_nothing
check "a backup is made of it" install backup --to "$WORK/their-backups" -f "$FLEET_YAML"
THEIR_NEXT_YAML=$WORK/their-next.yaml
THEIR_NEXT_FILE=$WORK/their-next.tar.zst
their_next_bundle() {
  sed "s/version: v$LAB_K8S\$/version: v$LAB_K8S_NEXT/" "$FLEET_YAML" > "$THEIR_NEXT_YAML"
  "$BUNDLE" build -f "$THEIR_NEXT_YAML" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$THEIR_NEXT_FILE"
}
their_upgrade() { install upgrade --bundle "$THEIR_NEXT_FILE" -f "$THEIR_NEXT_YAML" -y --accept-new-host-keys "$@"; }
their_versions() { [ "$(kubectl_on n1 get nodes -o 'jsonpath={.items[*].status.nodeInfo.kubeletVersion}')" = "v$LAB_K8S_NEXT v$LAB_K8S_NEXT" ]; }
check "a bundle of v$LAB_K8S_NEXT is built for it" their_next_bundle
check "its nodes are upgraded beside that etcd" says 0 "no snapshot is taken" their_upgrade
check "every node has the new version" their_versions
no_snapshot() { lab host root n1 '! ls /var/lib/kubexm/snapshots/before-*'; }
check "no snapshot of what others have there was taken" no_snapshot
check "an upgrade again changes nothing" says 0 ": 0 steps changed something" their_upgrade
theirs put /lab/registry2/x y
their_backup() { find "$WORK/their-backups" -mindepth 1 -maxdepth 1 -name 'lab-*' | tail -n 1; }
other_backup() { find "$WORK/etcd-backups" -mindepth 1 -maxdepth 1 -name 'lab-*' | tail -n 1; }
check "its keys are not deleted with a backup of another cluster" says 57 "" install reset -f "$FLEET_YAML" --etcd-data "$(other_backup)" -y
check "and are there still" keys
check "the cluster is reset, with its keys in their etcd" install reset -f "$FLEET_YAML" --etcd-data "$(their_backup)" -y
check "its hosts are as they were before" as_before
no_keys() { [ -z "$(theirs get --prefix --keys-only --limit 1 /lab/registry/)" ]; }
check "nothing of it is in their etcd" no_keys
others() { theirs get /lab/registry2/x | grep -qx y; }
check "and what others have there stays" others
FLEET=(n1 n2 n3)
lab host down --all
HOME_NAME=home
