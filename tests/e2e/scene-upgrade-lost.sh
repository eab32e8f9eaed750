# shellcheck shell=bash
# tier: long
# seconds: 620
# needs: lab
# Three control planes and a worker get the next patch version, and the third control plane dies for good when kubeadm is done with the second one:
# the run stops and says what to do. It is deleted, installed anew and added with the bundle of the upgrade; then the upgrade does the rest,
# of which the worker fails first: it is as it was, and takes pods.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/upgrade.sh"
say "a control plane that is lost in an upgrade"
HOME_NAME=home-upgrade-lost
FLEET=(n1 n2 n3 n4)
FLEET_ADDRESSES=(n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13 n4 10.77.0.14)
FLEET_YAML=$WORK/upgrade-lost.yaml
FLEET_FILE=$WORK/upgrade-lost.tar.zst
lab host down --all
fleet_up whole
lab cluster-yaml --control-planes 3 --sudo-password "$SUDO_PASSWORD" "${FLEET_ADDRESSES[@]}" > "$FLEET_YAML"
check "a bundle is built for three control planes and a worker" fleet_bundle
[ "$HELD" = 1 ] || return 0
check "they become a cluster" fleet_create
[ "$HELD" = 1 ] || return 0
check "a Deployment answers requests" web_answers
check "objects are made" kubectl_on n2 create configmap kept --from-literal=a=1

NEXT_YAML=$WORK/upgrade-lost-next.yaml
NEXT_FILE=$WORK/upgrade-lost-next.tar.zst
next_bundle() {
  sed "s/version: v$LAB_K8S\$/version: v$LAB_K8S_NEXT/" "$FLEET_YAML" > "$NEXT_YAML"
  "$BUNDLE" build -f "$NEXT_YAML" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$NEXT_FILE" --base "$FLEET_FILE"
}
check "a bundle of v$LAB_K8S_NEXT is built" next_bundle
[ "$HELD" = 1 ] || return 0
next() { install "$1" --bundle "$NEXT_FILE" --base "$FLEET_FILE" -f "$NEXT_YAML" -y --accept-new-host-keys "${@:2}"; }

# Not while kubeadm is at work on another one: it waits for all members of etcd, for more than ten minutes.
dies_in_the_middle() {
  local code=0 upgrade
  next upgrade > "$WORK/lost-in-upgrade.log" 2>&1 &
  upgrade=$!
  until journal said stepDone n2/upgrade.node > /dev/null 2>&1; do
    kill -0 "$upgrade" 2> /dev/null || { echo "the upgrade ended before n2 had its turn"; tail -n 20 "$WORK/lost-in-upgrade.log"; return 1; }
    sleep 0.2
  done
  lab host down n3
  wait "$upgrade" || code=$?
  tail -n 25 "$WORK/lost-in-upgrade.log"
  [ "$code" = 71 ] || { echo "exit code $code"; return 1; }
}
asking web n4
check "the third control plane dies while the second one has its turn: the upgrade stops" dies_in_the_middle
said_what_to_do() { grep -F 'kubexm-install delete-node n3 --unreachable skip' "$WORK/lost-in-upgrade.log"; }
check "it says what to do if it cannot come back" said_what_to_do
kubelet_is() { [ "$(kubectl_on n1 get node "$1" -o 'jsonpath={.status.nodeInfo.kubeletVersion}')" = "v$2" ]; }
check "the first one has the new version" kubelet_is n1 "$LAB_K8S_NEXT"
check "the worker has the old one" kubelet_is n4 "$LAB_K8S"
check "the API answers" kubectl_on n1 get configmap kept

forget_key() { lab in-net ssh-keygen -f "$WORK/$HOME_NAME/known_hosts" -R "$1"; }
check "what is left of it is deleted" exits 72 next delete-node n3 --unreachable skip
check "it is installed anew" lab host up n3 10.77.0.13 --sudo-password "$SUDO_PASSWORD"
check "its old key is forgotten" forget_key 10.77.0.13
check "an upgrade wants it back, with this bundle" says 53 "\`kubexm-install add-node\` and this bundle" next upgrade
check "it is added with the bundle of the upgrade" next add-node n3
check "it has the new version" kubelet_is n3 "$LAB_K8S_NEXT"

# rolled back, and left out
worker_fails() { next upgrade --max-failed-workers 1 --drill fail:n4/upgrade.kubelet; }
check "the upgrade does the rest, and its worker fails in the middle" exits 72 worker_fails
check "the worker has the old version" within 60 kubelet_is n4 "$LAB_K8S"
takes_pods() { kubectl_on n1 get node n4 --no-headers | tee /dev/stderr | grep -q '^n4 *Ready ' && [ -z "$(kubectl_on n1 get node n4 -o 'jsonpath={.spec.unschedulable}')" ]; }
check "it is Ready, and takes pods" within 60 takes_pods
planes_are() {
  local host
  for host in n1 n2 n3; do kubelet_is "$host" "$1" || { echo "$host is another version"; return 1; }; done
}
check "every control plane has the new one" planes_are "$LAB_K8S_NEXT"
check "and so have all components" static_pods_are "$LAB_K8S_NEXT"
# From the bundle of the version that the cluster is beyond, which the second one is a delta on.
walk() { install upgrade --bundle "$FLEET_FILE" --then "$NEXT_FILE" --allow-unsigned -y --accept-new-host-keys; }
check "a walk over both bundles passes over the first one, and brings the worker" says 0 "passed over are v$LAB_K8S" walk
check "every kubelet has the new version" kubelets_are "$LAB_K8S_NEXT"
ended_asking n4
check "every node is Ready" fleet_becomes_ready 120
check "every pod runs" within 180 all_running n1
# One of its pods was on the host that died: a Service goes on sending there until the node is known to be away.
check "the Deployment failed only until the dead node was known" answered web 600
check "what was there is there" kubectl_on n3 get configmap kept
nothing_more() { next upgrade --json > "$WORK/lost-again.jsonl" && python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/lost-again.jsonl"; }
check "a further one changes nothing" nothing_more
created_nothing() { next create --json > "$WORK/lost-created.jsonl" && python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/lost-created.jsonl"; }
check "and neither does a create" created_nothing
check "the cluster is reset" next reset
cat "$WORK/upgrade-figures"
lab host down --all
FLEET=(n1 n2 n3)
HOME_NAME=home
