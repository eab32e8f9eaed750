# shellcheck shell=bash
# tier: long
# seconds: 290
# needs: lab
# shellcheck disable=SC2016,SC2031,SC2153
# A cluster that a shell script has made with kubeadm is looked at, adopted, backed up, its certificates are renewed, and it is left again: nothing
# else of it is another afterwards.
. "$ROOT/tests/e2e/host.sh"
. "$ROOT/tests/e2e/by-hand.sh"
say "adopt: a cluster that kubeadm made"
HOME_NAME=home-adopt
ADOPT_YAML=$WORK/adopt.yaml
lab cluster-yaml "${ADOPTED[@]}" > "$ADOPT_YAML"

adopt() { install adopt -f "$ADOPT_YAML" --accept-new-host-keys "$@"; }
looks() { install adopt --dry-run --bundle "$FILE" -f "${YAML:-$ADOPT_YAML}" --accept-new-host-keys "$@"; }

lab host up "${ADOPTED[@]}"
in_lab smoke_registry > "$WORK/registry.log" 2>&1
check "a cluster is made by hand, with kubeadm" by_hand
[ "$HELD" = 1 ] || { in_lab registry_down || true; return 0; }
check "root has a copy of admin.conf, and the SSH user a kubeconfig of his own" kubeconfigs
trees_of before
containers > "$WORK/containers-before"

check "what is known of it is shown, and nothing is in the way" says 0 " 0 in the way, " looks
check "it says what to do next" says 0 "to adopt it: the same command without --dry-run" looks
as_document() {
  looks --json > "$WORK/adoption.json" || return 1
  python3 - "$WORK/adoption.json" << 'PY'
import json, sys
seen = json.load(open(sys.argv[1]))
print(json.dumps(seen, indent=1))
assert seen["schema"] == "kubexm.io/adoption/v1" and seen["origin"] == "foreign" and seen["exitCode"] == 0
of = {}
for item in seen["items"]:
    of.setdefault(item["verdict"], set()).add((item.get("host"), item["what"]))
assert "inTheWay" not in of
for wanted in [(None, "pod network"), (None, "service network"), (None, "DNS domain"), (None, "Kubernetes"), (None, "pod network's plugin"),
               (None, "endpoint of the API servers"), ("a1", "member of etcd"), ("a1", "CA of etcd"), ("a2", "cluster CA"), ("a2", "node name"),
               ("a2", "role"), ("a2", "address"), ("a2", "kubelet"), ("a2", "runtime endpoint"), ("a2", "container runtime")]:
    assert wanted in of["known"], wanted
PY
}
check "and as a document: networks, names, roles, versions, CAs and etcd agree" as_document
check "to look has changed nothing, on no host" same_trees_as before

YAML=$WORK/adopt-network.yaml
sed 's,network: {plugin: flannel},network: {plugin: flannel\, podCidr: 10.244.64.0/18},' "$ADOPT_YAML" > "$YAML"
check "another pod network in cluster.yaml is in the way" says 53 'write `podCidr: 10.233.64.0/18` in spec.network' looks
YAML=$WORK/adopt-one.yaml
lab cluster-yaml a1 10.77.0.31 > "$YAML"
check "and so is a node that cluster.yaml does not have" says 53 "node that cluster.yaml does not have" looks
YAML=
check "a cluster that is not adopted has no backup" says 53 "the cluster has no id" install backup --to "$WORK/backups-adopt" -f "$ADOPT_YAML" --accept-new-host-keys

check "it is adopted" says 0 "cluster lab is adopted: 2 steps changed something" adopt -y
check "only kubexm's own folder and its agent are new" only_stamps
same_containers() { containers > "$WORK/containers-now"; same "$WORK/containers-before" "$WORK/containers-now"; }
check "no container was started again" same_containers
ADOPTION=$(last_run_of_lab)
check "a rollback of what has succeeded wants its name" says 2 "name it:" adopt -y --roll-back
check "a second adoption has nothing to do, and asks nothing" says 0 "nothing to do" adopt -y
check "a look says so" says 0 "it is adopted already" looks
has_id() { install status -f "$ADOPT_YAML" --json > "$WORK/status.json" && python3 -c 'import json,sys; f=json.load(open(sys.argv[1]))["clusters"][0]["facts"]; print(f["id"], f["name"]); assert f["id"] and f["name"]=="lab" and len(f["nodes"])==2' "$WORK/status.json"; }
check "status knows its id and its nodes" has_id
check "certs check reads its certificates" says 0 "none has ended" install certs check -f "$ADOPT_YAML"
check "it has a backup" install backup --to "$WORK/backups-adopt" -f "$ADOPT_YAML"
check "which verifies" bash -c "KUBEXM_HOME='$WORK/$HOME_NAME' '$INSTALL' backup verify '$WORK'/backups-adopt/lab-*"
check "drift compares it with the bundle" exits 58 install drift --bundle "$FILE" -f "$ADOPT_YAML"

# files HOST: every file of kubeadm's, and the kubeconfigs, with mode, owner and digest
files() {
  lab host root "$1" 'find /etc/kubernetes /root/.kube/config /home/operator/.kube/config -type f -exec stat -c "%a %u:%g %n" {} + 2> /dev/null | sort -k3
    find /etc/kubernetes /root/.kube/config /home/operator/.kube/config -type f -exec sha256sum {} + 2> /dev/null | sort -k2'
}
files_of() { local host; for host in a1 a2; do files "$host" > "$WORK/files-$1-$host" || return 1; done; }
files_of before
cp "$WORK/containers-now" "$WORK/containers-adopted"
ends() { install certs check -f "$ADOPT_YAML" --json > "$WORK/ends-$1.json"; }
ends before
renew() { install certs renew -f "$ADOPT_YAML" "$@"; }
check "the certificates are renewed" says 0 "the certificates of cluster lab are renewed, and in use" renew --force -y
RENEWAL=$(last_run_of_lab)
# What kubeadm renews, with their keys, and root's copy: with other bytes, and with the mode and owner from before. Nothing else.
only_renewed() {
  files_of now
  same "$WORK/files-before-a2" "$WORK/files-now-a2" || return 1
  diff <(grep -v -E '^[0-9a-f]{64} ' "$WORK/files-before-a1") <(grep -v -E '^[0-9a-f]{64} ' "$WORK/files-now-a1") || return 1
  diff "$WORK/files-before-a1" "$WORK/files-now-a1" | sed -n 's/^> [0-9a-f]*  //p' | sort > "$WORK/renewed"
  {
    printf '/etc/kubernetes/%s.conf\n' admin super-admin controller-manager scheduler
    for one in apiserver apiserver-etcd-client apiserver-kubelet-client front-proxy-client etcd/server etcd/peer etcd/healthcheck-client; do
      printf '/etc/kubernetes/pki/%s\n' "$one.crt" "$one.key"
    done
    echo /root/.kube/config
  } | sort > "$WORK/renewed-wanted"
  same "$WORK/renewed-wanted" "$WORK/renewed"
}
check "they are those of kubeadm, and root's copy; nothing else, and nothing on the worker" only_renewed
check "root's copy is the new admin.conf" lab host root a1 cmp /etc/kubernetes/admin.conf /root/.kube/config
check "the SSH user's own kubeconfig is as it was" lab host root a1 'grep -qx "# mine" /home/operator/.kube/config'
later() {
  ends now || return 1
  python3 - "$WORK/ends-before.json" "$WORK/ends-now.json" << 'PY'
import json, sys
before, now = [{(one["host"], one["path"]): one["ends"] for one in json.load(open(path))["certificates"]} for path in sys.argv[1:]]
assert before.keys() == now.keys(), before.keys() ^ now.keys()
later = {path for (host, path) in now if now[host, path] > before[host, path]}
print(sorted(later))
assert all(now[key] >= before[key] for key in now)
assert {"/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/pki/etcd/server.crt", "/etc/kubernetes/admin.conf", "/etc/kubernetes/scheduler.conf"} <= later
assert not any(path.endswith("/ca.crt") or path.startswith("/var/lib/kubelet/") for path in later), later
PY
}
check "they end later, and those of authorities and kubelets as before" later
api_answers() { lab host root a1 env KUBECONFIG=/root/.kube/config KUBECACHEDIR=/run/e2e-kubectl /usr/local/bin/kubectl get nodes && all_running a1; }
check "the API server answers with root's copy, and every pod runs" within 120 api_answers
operators() {
  lab host root a1 'umask 077; cat > /run/operator.conf && KUBECONFIG=/run/operator.conf KUBECACHEDIR=/run/e2e-kubectl kubectl get --raw /readyz' \
    < "$WORK/$HOME_NAME/clusters/lab/kubeconfig"
}
check "and with the operator's kubeconfig on this machine" operators
# The control plane's four pods have other containers, the others those from before.
restarted() {
  local pods='^(etcd|kube-apiserver|kube-controller-manager|kube-scheduler)-a1 '
  containers > "$WORK/containers-now" || return 1
  diff <(grep -vE "$pods" "$WORK/containers-adopted") <(grep -vE "$pods" "$WORK/containers-now") || return 1
  [ "$(diff "$WORK/containers-adopted" "$WORK/containers-now" | grep -c '^>')" = 4 ]
}
# The API server hears of new containers when kubelet reports them.
check "the four pods of the control plane were started again, and no other" within 60 restarted
cp "$WORK/containers-now" "$WORK/containers-before"
check "a second renewal has nothing to do" says 0 "nothing to do" renew -y
check "a create is refused by name" says 22 '`kubexm-install create` does not work on adopted clusters' \
  install create --bundle "$FILE" -f "$ADOPT_YAML" -y
check "a reset, too" says 22 '`kubexm-install reset` does not work on adopted clusters' install reset -f "$ADOPT_YAML" -y
check "and an upgrade with a registry of kubexm's, with what to do" says 22 '`registry: {type: none}`' \
  install upgrade --bundle "$FILE" -f "$ADOPT_YAML" -y
check "none of that has changed anything" only_stamps
check "the adoption is rolled back" says 0 "not adopted any more" adopt -y --roll-back "$ADOPTION"
# Certificates and kubeconfigs are in these trees by name alone.
check "every host is as it was" same_trees_as before
check "but for what was renewed, which stays" only_renewed
check "no container was started again since the renewal" same_containers
check "the renewal can no longer be rolled back, and says why" says 22 "the renewed ones stay" renew -y --roll-back "$RENEWAL"
check "that has changed nothing" same_trees_as before
in_lab registry_down || true
lab host down --all
HOME_NAME=home
