# shellcheck shell=bash
# tier: long
# seconds: 1000
# needs: lab packages
# starts-from: fleet
# A running cluster gets other settings, with the bundle that it has: flags, an audit log and a quota of etcd on both control planes, more pods on
# every kubelet, while clients ask: a run fails in the middle and is completed. Again there is nothing to do, for create as well. A value that the
# API server does not start with ends the run, and the cluster keeps what it had. Then all of it is undone.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/upgrade.sh"
say "other settings of a running cluster"
HOME_NAME=home-settings
check "the fleet is up again, for other settings" start_from fleet
[ "$HELD" = 1 ] || return 0
write_fleet_yaml with_packages
# settings_yaml EVENT-TTL
settings_yaml() {
  sed "s|^  kubernetes:|&\n    maxPods: 120\n    audit: {maxSize: 7}\n    apiServerArgs: {event-ttl: $1}\n    controllerManagerArgs: {terminated-pod-gc-threshold: '500'}|
    s|^  etcd: {|&quota: 4Gi, |" "$FLEET_YAML"
}
settings_yaml 2h > "$WORK/settings.yaml"
settings_yaml 2parsecs > "$WORK/settings-wrong.yaml"
settings() { install upgrade --bundle "$FLEET_FILE" -f "$WORK/settings.yaml" -y --accept-new-host-keys "$@"; }
wrong() { install upgrade --bundle "$FLEET_FILE" -f "$WORK/settings-wrong.yaml" -y --accept-new-host-keys "$@"; }
# flag_is POD HOST FLAG
flag_is() { kubectl_on n1 -n kube-system get pod "$1-$2" -o 'jsonpath={.spec.containers[0].command}' | grep -qF -- "\"$3\""; }
created() { install create --bundle "$FLEET_FILE" -f "$WORK/settings.yaml" -y --accept-new-host-keys "$@"; }
check "create does not change them, and says what does" says 53 "kubexm-install upgrade" \
  install create --bundle "$FLEET_FILE" -f "$WORK/settings.yaml" -y --accept-new-host-keys
check "the plan names them" says 0 "with other settings" \
  install plan upgrade --bundle "$FLEET_FILE" -f "$WORK/settings.yaml" --accept-new-host-keys --text
check "a Deployment answers requests" web_answers
asking web n3
check "a run that fails at the second control plane ends there" says 71 "n2/upgrade.node" settings --drill fail:n2/upgrade.node
check "the first one has its flag" within 60 flag_is kube-apiserver n1 --event-ttl=2h
check "create with these settings does not say that all is done" created
check "the same command does the rest" settings
ended_asking
for host in n1 n2; do
  check "the API server of $host has its flag" within 60 flag_is kube-apiserver "$host" --event-ttl=2h
  check "the controller manager of $host, too" within 60 flag_is kube-controller-manager "$host" --terminated-pod-gc-threshold=500
  check "and etcd of $host" within 60 flag_is etcd "$host" --quota-backend-bytes=4294967296
  check "there is an audit log on $host" within 60 lab host root "$host" 'grep -q auditID /var/log/kubernetes/audit/audit.log'
done
pods_are() { [ "$(kubectl_on n1 get node "$1" -o 'jsonpath={.status.capacity.pods}')" = "$2" ]; }
for host in "${FLEET[@]}"; do check "$host takes more pods" within 60 pods_are "$host" 120; done
check "every node is Ready" fleet_becomes_ready 120
check "every pod runs" within 120 all_running n1
check "the Deployment has answered every request" answered web 0
settings_nothing() {
  "$1" --json > "$WORK/settings-again.jsonl" || { tail -n 3 "$WORK/settings-again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/settings-again.jsonl"
}
check "a second run has nothing to do" settings_nothing settings
check "nor has create" settings_nothing created
check "a value that the API server does not start with ends the run" says 71 "upgrade.apply" wrong
check "every node is Ready again" fleet_becomes_ready 180
check "every pod runs with what it had" within 120 all_running n1
check "and the API server has the flag of before" within 60 flag_is kube-apiserver n1 --event-ttl=2h
uploaded() { ! kubectl_on n1 -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}' | grep parsecs; }
check "so has kubeadm's configuration in the cluster" uploaded
check "with the settings of before the nodes are asked, and nothing is another one" within 180 settings
check "and then there is nothing to do" settings_nothing settings
before() { install upgrade --bundle "$FLEET_FILE" -f "$FLEET_YAML" -y --accept-new-host-keys "$@"; }
check "without them the cluster is as it was made" before
for host in n1 n2; do
  gone() { ! flag_is "$1" "$host" "$2"; }
  check "the API server of $host has no flag of them" within 60 gone kube-apiserver --event-ttl=2h
  check "nor has etcd of $host" within 60 gone etcd --quota-backend-bytes=4294967296
done
for host in "${FLEET[@]}"; do check "$host takes as many pods as before" within 60 pods_are "$host" 110; done
check "every pod runs after all" within 120 all_running n1
check "and there is nothing to do" settings_nothing before
lab host down --all
HOME_NAME=home
