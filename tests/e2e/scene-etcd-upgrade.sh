# shellcheck shell=bash
# tier: large
# seconds: 700
# needs: lab minor
# Day two of an etcd of kubexm's own, on two control planes and a host that is nothing else: its members go from 3.5 to 3.6 with an upgrade
# of Kubernetes, after one that failed and went back, and one that stopped between two members; then all of their data is lost and restored.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/lab/versions.sh"
say "etcd of its own, day two"
HOME_NAME=home-etcd-upgrade
OLD_ETCD=3.5.26
lab host down --all
fleet_up whole
check "the origins have an etcd of the minor version before" lab minor up
[ "$HELD" = 1 ] || return 0

# Of what `lab minor up` serves, the etcd alone.
OLD_CATALOGUE=$WORK/old-etcd-catalogue.yaml
{ printf 'schema: kubexm.io/catalogue/v1\nname: old-etcd\ncomponents:\n'; grep '^  etcd: ' "$(dirname "$LAB_OVERLAY")/minor-overlay.yaml"; } > "$OLD_CATALOGUE"
OLD_YAML=$WORK/etcd-old.yaml
NEXT_YAML=$WORK/etcd-next.yaml
lab cluster-yaml --control-planes 2 --sudo-password "$SUDO_PASSWORD" "${FLEET_ADDRESSES[@]}" |
  sed 's|roleGroups: .*|roleGroups: {etcd: [n1, n2, n3], master: [n1, n2], worker: [n1, n2]}|; s|etcd: {type: kubeadm}|etcd: {type: kubexm}|' > "$OLD_YAML"
sed "s/version: v$LAB_K8S\$/version: v$LAB_K8S_NEXT/" "$OLD_YAML" > "$NEXT_YAML"
# bundle_of NAME YAML OPTIONS...
bundle_of() { "$BUNDLE" build -f "$2" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" "${@:3}" --cache "$WORK/cache" -o "$WORK/etcd-$1.tar.zst"; }
check "a bundle of v$LAB_K8S with etcd $OLD_ETCD is built" bundle_of old "$OLD_YAML" --catalogue "$OLD_CATALOGUE"
check "and one of v$LAB_K8S_NEXT with etcd $LAB_ETCD" bundle_of next "$NEXT_YAML"
[ "$HELD" = 1 ] || return 0
# of NAME VERB ARGS...: the installer with that bundle
of() { install "$2" --bundle "$WORK/etcd-$1.tar.zst" -f "$WORK/etcd-$1.yaml" --accept-new-host-keys "${@:3}"; }
check "a cluster with members of etcd $OLD_ETCD is created" of old create -y
[ "$HELD" = 1 ] || return 0

# member HOST ARGS...: as an operator calls it on a member's host
member() {
  local pki=/etc/kubexm/etcd host=$1; shift
  lab host root "$host" etcdctl --endpoints https://127.0.0.1:2379 --cacert $pki/ca.crt --cert $pki/client.crt --key $pki/client.key "$@"
}
# etcd_is VERSION: by each member's own word
etcd_is() {
  local host found
  for host in n1 n2 n3; do
    found=$(member "$host" endpoint status) || return 1
    echo "$host: $found"
    grep -q ", $1, " <<< "$found" || return 1
  done
}
three() { member n3 endpoint health --cluster 2>&1 | tee /dev/stderr | grep -c "is healthy" | grep -qx 3; }
# starts HOST: the id of its member's last start
starts() { lab host root "$1" systemctl show --property=InvocationID --value kubexm-etcd; }
check "its members run etcd $OLD_ETCD" etcd_is "$OLD_ETCD"
check "and are healthy" within 60 three
id_before=$(member n1 member list | sort)
check "an object is made" kubectl_on n1 create configmap kept --from-literal=a=1

create_next() { says 53 "kubexm-install upgrade" of next create -y; }
check "create does not bring another minor version of etcd, and says what does" create_next
plan_says() { says 0 "$1" install plan upgrade --bundle "$WORK/etcd-next.tar.zst" -f "$NEXT_YAML" --accept-new-host-keys --text; }
check "the plan replaces the members, one after the other" plan_says "n3/upgrade.member"
check "and says until when there is a way back" plan_says "until the last member of etcd, that of n3, is replaced by etcd $LAB_ETCD"
ill() {
  local rc=0
  lab host root n3 systemctl stop kubexm-etcd || return 1
  says 53 "member n3 is not healthy" of next upgrade -y || rc=1
  lab host root n3 systemctl start kubexm-etcd
  return "$rc"
}
check "with a member down nothing is begun" ill
check "it is back" within 60 three

# Writes until the file is gone, one line each, with milliseconds.
asking() {
  # shellcheck disable=SC2016  # for the host's shell
  lab host root n1 bash -s << 'SH' > "$WORK/etcd-asked" 2>&1 &
touch /run/asks
while [ -e /run/asks ]; do
  if KUBECONFIG=/etc/kubernetes/admin.conf KUBECACHEDIR=/run/e2e-kubectl kubectl --request-timeout=2s create configmap "asked-$RANDOM$RANDOM" > /dev/null 2>&1; then
    echo "$(date +%s%3N) ok"
  else
    echo "$(date +%s%3N) failed"
  fi
  sleep 0.1
done
SH
}
answered() {
  local asked failed
  asked=$(wc -l < "$WORK/etcd-asked") failed=$(grep -c failed "$WORK/etcd-asked" || true)
  echo "$1: $failed of $asked writes failed" | tee -a "$WORK/etcd-upgrade-figures"
  [ "$asked" -gt 20 ] && [ "$failed" -le "$2" ]
}
asking
fails() { says 70 "rolled back" of next upgrade -y --drill fail:n2/upgrade.member; }
check "an upgrade that fails with the second member is rolled back" fails
lab host root n1 rm -f /run/asks
wait
check "every member has its earlier etcd again" etcd_is "$OLD_ETCD"
check "and is healthy after it" within 60 three
# Each write of a member that is the leader waits for an election; the whole way there and back has five restarts.
check "the API went on writing, but for elections" answered "there and back" 120
check "the object is there" kubectl_on n1 get configmap kept

kept() { says 70 "resume" of next upgrade -y --on-failure keep --drill fail:n1/upgrade.member; }
check "one that fails with the first member, and is kept, can be resumed" kept
mixed() { member n1 endpoint status | tee /dev/stderr | grep -q ", $LAB_ETCD, " && member n3 endpoint status | tee /dev/stderr | grep -q ", $OLD_ETCD, "; }
check "one member has the new etcd, and another the old one" mixed
check "they are healthy together" within 60 three
FROM=$SECONDS
check "it is resumed, and ends" of next resume
echo "the rest of the upgrade: $((SECONDS - FROM)) s" >> "$WORK/etcd-upgrade-figures"
[ "$HELD" = 1 ] || return 0
check "each member runs etcd $LAB_ETCD" etcd_is "$LAB_ETCD"
check "and is healthy with it" within 60 three
same_members() { [ "$(member n1 member list | sort)" = "$id_before" ] || { member n1 member list; echo "$id_before"; return 1; }; }
check "they are the members that they were" same_members
kubelets() { [ "$(kubectl_on n1 get nodes --no-headers -o custom-columns=:.status.nodeInfo.kubeletVersion | sort -u)" = "v$LAB_K8S_NEXT" ]; }
check "every kubelet has the new version" kubelets
no_pod() { kubectl_on n1 -n kube-system get pods --no-headers -o custom-columns=:.metadata.name > "$WORK/etcd-pods" && ! grep '^etcd-' "$WORK/etcd-pods"; }
check "kubeadm made no etcd of its own" no_pod
check "the object is there after it" kubectl_on n1 get configmap kept
alone() { ! lab host root n3 'ls -d /usr/local/bin/kube{let,adm,ctl} /usr/local/bin/containerd /etc/kubernetes 2> /dev/null | grep .'; }
check "the host of etcd alone has nothing of Kubernetes" alone
check "every pod runs" within 120 all_running n1

started() { local host; for host in n1 n2 n3; do starts "$host"; done; }
nothing_done() {
  local before; before=$(started)
  of next upgrade -y --json > "$WORK/etcd-again.jsonl" || { tail -n 3 "$WORK/etcd-again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/etcd-again.jsonl" && [ "$(started)" = "$before" ]
}
check "a second upgrade changes nothing, and restarts no member" nothing_done
created_nothing() {
  of next create -y --json > "$WORK/etcd-created.jsonl" || { tail -n 3 "$WORK/etcd-created.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/etcd-created.jsonl"
}
check "a create with the new bundle has nothing to do" created_nothing
check "the earlier bundle is refused" says 53 "which is older" of old upgrade -y

say "its data is lost"
BACKUPS=$WORK/etcd-own-backups
rm -rf "$BACKUPS"
check "a backup is made" install backup --to "$BACKUPS" -f "$NEXT_YAML"
backup=$(find "$BACKUPS" -mindepth 1 -maxdepth 1 -name 'lab-*' | tail -n 1)
restore() { install restore "$backup" -f "$NEXT_YAML" --accept-new-host-keys "$@"; }
check "an object is made after it" kubectl_on n1 create configmap later --from-literal=a=1
lose() {
  local host
  for host in n1 n2 n3; do
    lab host root "$host" 'rm -rf /var/lib/etcd/member; pkill -KILL -x etcd || true'
  done
  ! within 5 kubectl_on n1 get configmap kept
}
check "the data of every member is lost" lose
fewer() { sed 's|etcd: \[n1, n2, n3\]|etcd: [n1]|; /name: n3,/d' "$NEXT_YAML" > "$WORK/etcd-fewer.yaml" && says 53 "as its etcd" install restore "$backup" -f "$WORK/etcd-fewer.yaml" -y; }
check "a restore of fewer members than the cluster has is refused" fewer
check "it is restored" restore -y
[ "$HELD" = 1 ] || return 0
check "what was there at the backup is there" within 60 kubectl_on n1 get configmap kept
gone() { kubectl_on n1 get configmaps --no-headers -o custom-columns=:.metadata.name > "$WORK/etcd-maps" && grep -qx kept "$WORK/etcd-maps" && ! grep -x later "$WORK/etcd-maps"; }
check "what was made since is not" gone
check "all three members are healthy" within 60 three
new_cluster() { [ "$(member n1 member list | sort)" != "$id_before" ]; }
check "as a cluster of another token" new_cluster
enabled() { local host; for host in n1 n2 n3; do lab host root "$host" systemctl is-enabled kubexm-etcd || return 1; done; }
check "they start with their hosts again" enabled
check "every pod runs after it" within 180 all_running n1
check "a create has nothing to do after it" created_nothing

cat "$WORK/etcd-upgrade-figures"
check "the cluster is reset" install reset -f "$NEXT_YAML" -y
# The upgrade's snapshot is the operator's to remove.
check "the snapshot of before is there, and nothing else of kubexm" snapshot_removed
check "every host is as it was before" as_before
lab host down --all
HOME_NAME=home
