# shellcheck shell=bash
# tier: unproven
# seconds: 420
# needs: lab harbor
# `create` refuses Harbor until the laws let its reset pass (bundle-spec/spec/src/unsupported.rs): take that row out to run this.
# Harbor on a host of its own, by the real docker and compose. What runs in its containers is the lab's: distribution behind a small
# server that answers the published API (tests/lab/harbor).
. "$ROOT/tests/e2e/fleet.sh"
say "harbor: docker, compose and the layout of Harbor's offline installer on a registry host"
HOME_NAME=home-harbor
# shellcheck disable=SC2034  # fleet.sh reads it
FLEET=(n1 store)
HARBORS=$WORK/harbor
NAME=registry.lab.kubexm.internal
PASSWORD=4711-Secret-of-admin
mkdir -p "$HARBORS"
sed "/^components:/r $LAB/harbor/components.yaml" "$LAB_OVERLAY" > "$HARBORS/overlay.yaml"
# harbor_yaml CONFIG: cluster.yaml with this harborConfig
harbor_yaml() {
  lab cluster-yaml n1 10.77.0.11 |
    sed "s|^  roleGroups: {|  - {name: store, address: 10.77.0.12, user: operator, privateKeyPath: $LAB/id}\n  roleGroups: {registry: [store], |
      s|registry: {type: embedded}|registry: {type: harbor, dataDir: /srv/harbor, harborConfig: {$1}}|"
}
harbor_yaml 'config: {log: {level: info}}' > "$HARBORS/first.yaml"
harbor_yaml 'projectQuota: 40Gi, config: {log: {level: debug}}' > "$HARBORS/changed.yaml"
of() { install "$1" --bundle "$HARBORS/bundle.tar.zst" --allow-unsigned --accept-new-host-keys "${@:2}"; }
create() { of create -f "$HARBORS/$1.yaml" -y "${@:2}"; }
again() {
  create "$1" --json > "$HARBORS/again.jsonl" || { tail -n 3 "$HARBORS/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$HARBORS/again.jsonl"
}
admin() { lab host root store cat /var/lib/kubexm-harbor/admin-password; }
# asks METHOD PATH [CURL...]: Harbor, as its administrator
asks() {
  lab in-net curl --silent --show-error --noproxy '*' --cacert "$HARBORS/ca.crt" --resolve "$NAME:443:10.77.0.12" --user "admin:$(admin)" \
    -X "$1" "https://$NAME$2" "${@:3}"
}
healthy() { asks GET /api/v2.0/health | grep '],"status":"healthy"}' || { asks GET /api/v2.0/health; return 1; }; }
containers() { lab host root store DOCKER_HOST=unix:///run/kubexm-harbor/docker.sock /usr/local/lib/kubexm-harbor/bin/docker "$@"; }
# No rule of the host's tables is docker's, no bridge of its own is there, and FORWARD lets through what it did.
leaves_tables_alone() {
  local rules
  rules=$(lab host root store nft list ruleset)
  ! grep -iE 'docker|policy drop' <<< "$rules" || return 1
  ! lab host root store ip -br link show docker0 2> /dev/null
}
private() {
  local status
  status=$(lab in-net curl --silent --noproxy '*' --cacert "$HARBORS/ca.crt" --resolve "$NAME:443:10.77.0.12" -o /dev/null -w '%{http_code}' \
    "https://$NAME/v2/registry.k8s.io/pause/manifests/3.10.1") || return 1
  [ "$status" = 401 ] || { echo "it answers $status to who has no login"; return 1; }
}
quota_is() { asks GET "/api/v2.0/quotas?reference=project&reference_id=1" | grep -F "\"hard\":{\"storage\":$1}"; }
# Another team's.
others_push() {
  asks POST /api/v2.0/projects -H 'Content-Type: application/json' -d '{"project_name": "team", "metadata": {"public": "false"}}' &&
    lab in-net skopeo copy -q --insecure-policy --src-tls-verify=false --dest-cert-dir "$HARBORS/certs" --dest-creds "admin:$(admin)" \
      "oci:$LAB/oci/docker.io/library/busybox:1" "docker://10.77.0.12/team/busybox:1"
}
others_are_there() { asks GET /v2/team/busybox/tags/list | grep -q '"1"'; }
cri_pulls() {
  local pod=pull-$RANDOM code=0
  printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default}\nspec: {nodeName: n1, restartPolicy: Never, tolerations: [{operator: Exists}], containers: [{name: a, image: "%s", imagePullPolicy: Always}]}\n' \
    "$pod" "$1" | kubectl_on n1 apply -f - || return 1
  within 90 has_image "$pod" || { code=1; kubectl_on n1 describe pod "$pod" | tail -n 8; }
  kubectl_on n1 delete pod "$pod" --force --grace-period=0 > /dev/null 2>&1 || return 1
  return "$code"
}
has_image() { kubectl_on n1 get pod "$1" --no-headers -o 'custom-columns=:.status.containerStatuses[0].imageID' | grep -q sha256:; }
# Of the data volume only what others pushed, and what opens it.
only_data_is_left() {
  states now
  same_state before-n1 now-n1 || return 1
  lab host root store test -s /srv/harbor/kubexm/admin-password || { echo "the password that opens the data is gone"; return 1; }
  grep -v ' /srv' "$WORK/before-store" > "$WORK/before-without-data"
  grep -v ' /srv' "$WORK/now-store" > "$WORK/now-without-data"
  same_state before-without-data now-without-data
}

lab host up n1 10.77.0.11 store 10.77.0.12
states before
check "a bundle with Harbor, docker and compose" "$BUNDLE" build -f "$HARBORS/first.yaml" --zone "$LAB_ZONE" --catalogue "$HARBORS/overlay.yaml" \
  --cache "$WORK/cache" -o "$HARBORS/bundle.tar.zst"
check "a cluster comes up from Harbor" create first
[ "$HELD" = 1 ] || return 0
mkdir -p "$HARBORS/certs"
trust() { lab host root store cat /etc/kubexm/harbor/ca.crt > "$HARBORS/ca.crt" && cp "$HARBORS/ca.crt" "$HARBORS/certs/"; }
trust
check "it is healthy by its own report" healthy
check "its engine leaves the host's tables and links alone" leaves_tables_alone
check "nobody pulls without a login" private
check "kubelet's runtime pulls with its own" cri_pulls docker.io/library/busybox:1
check "others push to projects of their own" others_push
check "a second create changes nothing" again first
check "a changed harborConfig is applied" create changed
check "projects have the quota" quota_is $((40 << 30))
check "what others pushed is there" others_are_there
check "and then nothing changes again" again changed
check "hosts reboot" lab host reboot --all
check "Harbor comes back by itself" within 120 healthy
check "and serves" within 120 cri_pulls docker.io/library/busybox:1
check "the cluster is reset" of reset -f "$HARBORS/changed.yaml" -y
check "after reset nothing is left but Harbor's data" only_data_is_left
check "a cluster comes up on the data that were left" create changed
trust
check "what others pushed is there again" others_are_there
check "data are deleted only by the cluster's name" says 20 "nothing was changed" of reset -f "$HARBORS/changed.yaml" -y --delete-registry-data other
check "a reset takes the data too if that is asked for" of reset -f "$HARBORS/changed.yaml" -y --delete-registry-data lab
check "then hosts are as they were before" as_before
lab host down --all
HOME_NAME=home
