# shellcheck shell=bash
# tier: long
# seconds: 290
# needs: lab
# shellcheck disable=SC2016,SC2031,SC2153
# A cluster that a shell script has made with kubeadm is adopted and gets the next patch version, while no registry is there to pull from: what
# kubeadm and kubelet are is another one afterwards, and nothing else. A second upgrade changes nothing.
. "$ROOT/tests/e2e/host.sh"
. "$ROOT/tests/e2e/by-hand.sh"
. "$ROOT/tests/lab/versions.sh"
say "adopt: the upgrade of a cluster that kubeadm made"
HOME_NAME=home-adopt-upgrade
# Of the cluster as it is, and with the next version.
OLD_YAML=$WORK/adopt-old.yaml
NEXT_YAML=$WORK/adopt-next.yaml
NEXT_FILE=$WORK/adopt-next.tar.zst
lab cluster-yaml "${ADOPTED[@]}" | sed "s/registry: {type: embedded}/registry: {type: none}/" > "$OLD_YAML"
sed "s/version: v$LAB_K8S\$/version: v$LAB_K8S_NEXT/" "$OLD_YAML" > "$NEXT_YAML"
next_bundle() { "$BUNDLE" build -f "$NEXT_YAML" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$NEXT_FILE"; }
upgrade() { install upgrade --bundle "$NEXT_FILE" -f "$NEXT_YAML" -y --accept-new-host-keys "$@"; }

check "a bundle of v$LAB_K8S_NEXT without a registry is built" next_bundle
[ "$HELD" = 1 ] || return 0
lab host up "${ADOPTED[@]}"
in_lab smoke_registry > "$WORK/registry.log" 2>&1
check "a cluster is made by hand, with kubeadm" by_hand
[ "$HELD" = 1 ] || { in_lab registry_down || true; return 0; }
check "root has a copy of admin.conf, and the SSH user a kubeconfig of his own" kubeconfigs
in_lab registry_down
trees_of before
containers > "$WORK/containers-before"
kubeadm_config() { kubectl_on a1 -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}'; }
kubeadm_config > "$WORK/kubeadm-config-before"

# It is no cluster of kubexm's: hosts that are not adopted are in the way.
check "before it is adopted no upgrade begins" exits 53 upgrade
check "it is adopted" says 0 "cluster lab is adopted: 2 steps changed something" install adopt -y -f "$OLD_YAML" --accept-new-host-keys
ADOPTION=$(last_run_of_lab)
planned() { install plan upgrade --bundle "$NEXT_FILE" -f "$NEXT_YAML" --text; }
check "its plan is shown" says 0 "upgrade.apply" planned
# A program of a package would come back with the package's next version.
of_a_package() {
  lab host root a2 'mkdir -p /usr/local/sbin && printf "#!/bin/sh\n" > /usr/local/sbin/kubeadm && chmod 755 /usr/local/sbin/kubeadm' || return 1
  says 22 "a2: kubeadm is /usr/local/sbin/kubeadm, and is replaced at /usr/local/bin/kubeadm only" upgrade
}
check "a kubeadm elsewhere is refused by name" of_a_package
lab host root a2 rm /usr/local/sbin/kubeadm
check "nothing was changed so far" only_stamps

check "it is upgraded" upgrade
UPGRADE=$(last_run_of_lab)
kubelets_are() {
  local found; found=$(kubectl_on a1 get nodes --no-headers -o custom-columns=:.status.nodeInfo.kubeletVersion | sort -u)
  echo "kubelets: $found"
  [ "$found" = "v$LAB_K8S_NEXT" ]
}
pods_are() {
  local found; found=$(kubectl_on a1 -n kube-system get pods -l "$1" --no-headers -o 'custom-columns=:.spec.containers[0].image' | grep -v /etcd: | sed 's/.*://' | sort -u)
  echo "$1: $found"
  [ "$found" = "v$LAB_K8S_NEXT" ]
}
check "every kubelet has the new version" kubelets_are
check "and every static pod" pods_are tier=control-plane
check "and kube-proxy" within 120 pods_are k8s-app=kube-proxy
check "every pod runs" within 120 all_running a1
snapshot_there() { lab host root a1 'ls -l /var/lib/kubexm/snapshots/before-v*.db'; }
check "a snapshot of etcd was taken before" snapshot_there
check "root's copy is the admin.conf that kubeadm has renewed" lab host root a1 cmp /etc/kubernetes/admin.conf /root/.kube/config
check "the SSH user's own kubeconfig is as it was" lab host root a1 'grep -qx "# mine" /home/operator/.kube/config'
# Programs of Kubernetes, what kubeadm writes, images; and kubexm's own.
only_upgraded() {
  local host wanted
  trees_of now
  for host in a1 a2; do
    diff "$WORK/tree-before-$host" "$WORK/tree-now-$host" | sed -n 's/^[<>] //p' | grep -vE "^content " |
      grep -vE " \./(var/lib/kubexm|usr/local/bin/(kubexm-install|kubeadm|kubelet|kubectl)|etc/kubernetes/(tmp|manifests)|var/lib/kubelet/(config\.yaml|kubeadm-flags\.env|instance-config\.yaml))(/| |\$)" && return 1
    wanted=$(printf '%s\n' kubeadm kubectl kubelet)
    [ "$(diff "$WORK/tree-before-$host" "$WORK/tree-now-$host" | sed -n 's,^> f 755 \./usr/local/bin/\(kube[a-z]*\) .*,\1,p' | grep -v '^kubexm' | sort)" = "$wanted" ] || return 1
  done
}
check "nothing else on the hosts is another one" only_upgraded
same_config() {
  kubeadm_config > "$WORK/kubeadm-config-now"
  diff <(grep -v kubernetesVersion "$WORK/kubeadm-config-before") <(grep -v kubernetesVersion "$WORK/kubeadm-config-now") || return 1
  grep -q "kubernetesVersion: v$LAB_K8S_NEXT" "$WORK/kubeadm-config-now"
}
check "kubeadm's configuration of the cluster has the new version, and is its own otherwise" same_config
same_network() {
  containers > "$WORK/containers-now"
  diff <(grep -E '^(kube-flannel|coredns)' "$WORK/containers-before") <(grep -E '^(kube-flannel|coredns)' "$WORK/containers-now")
}
check "the pod network and DNS run as before" same_network

nothing_done() {
  trees_of still-before
  upgrade --json > "$WORK/upgraded-again.jsonl" || { tail -n 3 "$WORK/upgraded-again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/upgraded-again.jsonl"
  same_trees_as still-before
}
check "a second upgrade changes nothing" nothing_done
still_adopted() { install status -f "$NEXT_YAML" --json > "$WORK/status.json" && python3 -c 'import json,sys; f=json.load(open(sys.argv[1]))["clusters"][0]["facts"]; print(f["id"], f["name"], f["serverVersion"]); assert f["id"] and f["name"]=="lab" and len(f["nodes"])==2' "$WORK/status.json"; }
check "status knows it" still_adopted
check "certs check reads its certificates" says 0 "none has ended" install certs check -f "$NEXT_YAML"
check "it has a backup" install backup --to "$WORK/backups-adopt-upgrade" -f "$NEXT_YAML"
check "drift compares it with the bundle" exits 58 install drift --bundle "$NEXT_FILE" -f "$NEXT_YAML"
check "a create is refused by name" says 22 '`kubexm-install create` does not work on adopted clusters' install create --bundle "$NEXT_FILE" -f "$NEXT_YAML" -y
check "the adoption is rolled back" says 0 "not adopted any more" install adopt -f "$OLD_YAML" -y --roll-back "$ADOPTION"
check "the new version stays" kubelets_are
check "the upgrade can no longer be rolled back, and says why" says 22 "the new ones stay" install rollback "$UPGRADE" --bundle "$NEXT_FILE" -f "$NEXT_YAML" -y
lab host down --all
HOME_NAME=home
