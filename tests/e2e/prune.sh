# shellcheck shell=bash
# Two bundles in one registry of two hosts, p1 and p2, for the scenes that remove the first.
BUSYBOX=docker.io/library/busybox:1
# cluster.yaml of two hosts that serve the registry (type KIND, on port PORT), without and with an image of the user's
two_bundles() {
  lab cluster-yaml --control-planes 1 p1 10.77.0.24 p2 10.77.0.25 |
    sed "s/roleGroups: {/&registry: [p1, p2], /; s/registry: {type: embedded}/registry: {type: $KIND}/" > "$WORK/two.yaml"
  sed "s,bundle: {,bundle: {extraImages: [{name: \"$BUSYBOX\"}]\, ," "$WORK/two.yaml" > "$WORK/one.yaml"
}
bundle_of() { "$BUNDLE" build -f "$WORK/$1.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/$1.tar.zst"; }
create_of() { install create --bundle "$WORK/$1.tar.zst" --allow-unsigned --accept-new-host-keys -y; }
registry() { local verb=$1; shift; install registry "$verb" -f "$WORK/two.yaml" "$@"; }
elsewhere() { HOME_NAME=$HOME_NAME-elsewhere registry "$@" --accept-new-host-keys; }
bundles() { registry list --json | jq -r '.bundles[] | "\(.name) \(.present)"'; }
has_bundles() {
  local found; found=$(bundles); echo "$found"
  [ "$(wc -l <<< "$found")" = "$1" ] && [ "$(grep -c ' true$' <<< "$found")" = 1 ]
}
earlier() { bundles | sed -n 's/ false$//p'; }
# asked CODE IMAGE: what each depot answers for it, as a node's runtime asks
asked() {
  local address got url
  for address in 10.77.0.24 10.77.0.25; do
    url="https://$address:$PORT/v2/${2%:*}/manifests/${2##*:}"
    got=$(lab in-net curl --silent --insecure --output /dev/null --write-out '%{http_code}' --header 'Accept: application/vnd.oci.image.index.v1+json' "$url")
    [ "$got" = "$1" ] || { echo "$url: $got, wanted $1"; return 1; }
  done
}
store() { lab host root "$1" du -sb /var/lib/kubexm/store | cut -f 1; }
user_of_image() {
  kubectl_on p1 apply -f - << YAML
apiVersion: apps/v1
kind: Deployment
metadata: {name: sleeper, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: sleeper}}
  template:
    metadata: {labels: {app: sleeper}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]
      containers: [{name: c, image: "busybox:1", command: [sleep, "3600"]}]
YAML
}
changes_nothing_here() {
  local host
  for host in "${FLEET[@]}"; do tree "$host" > "$WORK/tree-before-$host"; done
  "$@" || return 1
  for host in "${FLEET[@]}"; do
    tree "$host" > "$WORK/tree-after-$host"
    same "$WORK/tree-before-$host" "$WORK/tree-after-$host" || return 1
  done
}
no_pods() { ! kubectl_on p1 get pods -n default --no-headers 2> /dev/null | grep -q .; }
used_is_refused() {
  check "something uses it" user_of_image
  check "its bundle is not removed, and the user is named" says 53 "default/sleeper" registry prune -y
  kubectl_on p1 delete deployment sleeper > /dev/null
  within 60 no_pods || true
}
