# shellcheck shell=bash
# shellcheck disable=SC2016,SC2034,SC2031,SC2153
# What scenes of adopted clusters share: a cluster of two hosts that tests/bench/by-hand.sh makes with kubeadm, and what is another one on them
# afterwards.
ADOPTED=(a1 10.77.0.31 a2 10.77.0.32)

# in_lab FUNCTION ARGS...: one of the lab's own functions, in a shell of its own
in_lab() (
  # shellcheck disable=SC1091  # the lab's
  { . "$ROOT/tests/lab/lib.sh"; . "$ROOT/tests/lab/origins.sh"; . "$ROOT/tests/lab/tools.sh"; . "$ROOT/tests/lab/smoke.sh"; }
  "$@"
)
# Runs within in_lab: the registry that by-hand.sh is given, filled already.
# shellcheck disable=SC2153  # lib.sh sets it
registry_down() { stop "$NETRUN/registry.pid" "$NETRUN/registry.yml"; }
by_hand() {
  # Another scene of this lane may have had hosts of these addresses.
  rm -rf "$WORK/by-hand"
  mkdir -p "$WORK/by-hand"
  lab in-net env HOSTS="a1=10.77.0.31 a2=10.77.0.32" KEY="$LAB/id" FILES="$LAB/origin" REGISTRY=10.77.0.1:5000 WORK="$WORK/by-hand" \
    FLANNEL="$ROOT/tests/lab/kube-flannel.yaml" ETCD="${ETCD_OF_KUBEADM:-}" bash "$ROOT/tests/bench/by-hand.sh" > "$WORK/by-hand.log" 2>&1 ||
    { tail -n 30 "$WORK/by-hand.log"; return 1; }
}
trees_of() { local host; for host in a1 a2; do tree "$host" > "$WORK/tree-$1-$host" || return 1; done; }
same_trees_as() { local host rc=0; trees_of now; for host in a1 a2; do same "$WORK/tree-$1-$host" "$WORK/tree-now-$host" || rc=1; done; return "$rc"; }
# Since the trees of before nothing but kubexm's own folder and its agent came.
only_stamps() {
  local host
  trees_of now
  for host in a1 a2; do
    diff "$WORK/tree-before-$host" "$WORK/tree-now-$host" | sed -n 's/^[<>] //p' | grep -vE " \./(var/lib/kubexm|usr/local/bin/kubexm-install)(/| |\$)" && return 1
  done
  return 0
}
# Nothing was restarted: every container is the one that it was.
containers() {
  kubectl_on a1 get pods -A -o json > "$WORK/pods.json" || return 1
  python3 - "$WORK/pods.json" << 'PY'
import json, sys
for pod in sorted(json.load(open(sys.argv[1]))["items"], key=lambda pod: pod["metadata"]["name"]):
    print(pod["metadata"]["name"], *(one["containerID"] for one in pod["status"]["containerStatuses"]))
PY
}
last_run_of_lab() { find "$WORK/$HOME_NAME/clusters/lab/runs" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort | tail -n 1; }
# As people leave them: root has a copy of admin.conf, the SSH user has written one of his own.
kubeconfigs() {
  lab host root a1 install -D -m 640 /etc/kubernetes/admin.conf /root/.kube/config || return 1
  lab host root a1 'mkdir /home/operator/.kube && printf "# mine\napiVersion: v1\nkind: Config\n" > /home/operator/.kube/config && chown -R operator: /home/operator/.kube'
}
