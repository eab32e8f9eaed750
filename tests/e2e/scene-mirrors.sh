# shellcheck shell=bash
# tier: long
# seconds: 330
# needs: lab balancers
# Two hosts serve the content of one cluster. The one that everybody asks first is powered off: what no node has yet is pulled from the
# other. It comes back, and nothing is to be done. With the embedded registry, then with the distribution registry.
. "$ROOT/tests/e2e/host.sh"
. "$ROOT/tests/e2e/fleet.sh"
say "two hosts serve the registry"
FLEET=(n1 n2 n3)
# mirrors_yaml KIND: n1 asks n3 first, and then n2
mirrors_yaml() {
  lab cluster-yaml --control-planes 1 "${FLEET_ADDRESSES[@]}" |
    sed "s|roleGroups: {|roleGroups: {registry: [n2, n3], |; s|registry: {type: embedded}|registry: {type: $1}|; s|bundle: {|bundle: {extraImages: [{name: \"docker.io/library/busybox:1\"}], |"
}
KIND=embedded
mirrors() { install "$1" --bundle "$WORK/mirrors-$KIND.tar.zst" -f "$WORK/mirrors-$KIND.yaml" --allow-unsigned --accept-new-host-keys -y "${@:2}"; }
mirrors_bundle() {
  mirrors_yaml "$KIND" > "$WORK/mirrors-$KIND.yaml"
  "$BUNDLE" build -f "$WORK/mirrors-$KIND.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/mirrors-$KIND.tar.zst"
}
mirrors_ready() { [ "$(kubectl_on n1 get nodes --no-headers | grep -c ' Ready ')" = 3 ]; }
mirrors_become_ready() { within 180 mirrors_ready; }
# asked HOST: the addresses in the order in which its runtime asks them
asked() {
  lab host root "$1" cat /etc/containerd/certs.d/docker.io/hosts.toml > "$WORK/asked-$1" || return 1
  { sed -n 's|^\[host."https://\([0-9.]*\):.*"\]$|\1|p' "$WORK/asked-$1"; sed -n 's|^server = "https://\([0-9.]*\):.*|\1|p' "$WORK/asked-$1"; } | tr '\n' ' '
}
asked_are() { local found; found=$(asked "$1"); echo "$1 asks $found"; [ "$found" = "$2 " ]; }
each_asks() { asked_are n1 "10.77.0.13 10.77.0.12" && asked_are n2 "10.77.0.12 10.77.0.13" && asked_are n3 "10.77.0.13 10.77.0.12"; }
pod_of() {
  cat << YAML
apiVersion: v1
kind: Pod
metadata: {name: $1, namespace: default}
spec:
  nodeName: $2
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: one, image: "docker.io/library/busybox:1", command: [sh, -c, "echo pulled"]}]
YAML
}
pod_said() { [ "$(kubectl_on n1 logs "$1")" = pulled ]; }
pod_pulls() { pod_of "$1" "$2" | kubectl_on n1 apply -f - && within "${3:-120}" pod_said "$1"; }
mirrors_nothing() {
  mirrors create --json > "$WORK/again.jsonl" || { tail -n 3 "$WORK/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again.jsonl"
}

for KIND in embedded registry; do
  HOME_NAME=home-mirrors-$KIND
  check "a bundle for two registry hosts is built ($KIND)" mirrors_bundle
  [ "$HELD" = 1 ] || return 0
  [ "$KIND" = registry ] || { lab host up "${FLEET_ADDRESSES[@]}"; states before; }
  check "a cluster comes up ($KIND)" mirrors create
  [ "$HELD" = 1 ] || return 0
  check "every node is Ready ($KIND)" mirrors_become_ready
  check "each host asks both, and a registry host itself first ($KIND)" each_asks
  check "a second create changes nothing ($KIND)" mirrors_nothing
  check "a registry host is not deleted ($KIND)" says 53 "it serves the registry" mirrors delete-node n2
  check "the registry host that is asked first is powered off ($KIND)" lab host stop n3
  FROM=$SECONDS
  check "what no node has is pulled from the other one ($KIND)" pod_pulls "late-$KIND" n1
  echo "pulled after $((SECONDS - FROM)) s"
  check "the host comes back ($KIND)" lab host up n3 10.77.0.13
  check "every node is Ready again ($KIND)" mirrors_become_ready
  check "a create changes nothing then ($KIND)" mirrors_nothing
  check "the cluster is reset ($KIND)" mirrors reset
  check "every host is as it was before ($KIND)" as_before
done
lab host down --all
HOME_NAME=home
