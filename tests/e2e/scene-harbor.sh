# shellcheck shell=bash
# tier: long
# seconds: 600
# needs: lab harbor
# Harbor on a host of its own, by the real docker and compose. What runs in its containers is the lab's: distribution behind a small
# server that answers the published API (tests/lab/harbor).
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/registry.sh"
. "$ROOT/tests/e2e/upgrade.sh"
say "harbor: docker, compose and the layout of Harbor's offline installer on a registry host"
HOME_NAME=home-harbor
# shellcheck disable=SC2034  # fleet.sh reads it
FLEET=(n1 n2 store)
HARBORS=$WORK/harbor
NAME=registry.lab.kubexm.internal
BUSYBOX=docker.io/library/busybox:1
mkdir -p "$HARBORS"
sed "/^components:/r $LAB/harbor/components.yaml" "$LAB_OVERLAY" > "$HARBORS/overlay.yaml"
# harbor_yaml CONFIG [HOST ADDRESS]: cluster.yaml with this harborConfig, and with a further worker
harbor_yaml() {
  local key=", user: operator, privateKeyPath: $LAB/id}"
  lab cluster-yaml n1 10.77.0.11 |
    sed "s|^  roleGroups: {|  - {name: store, address: 10.77.0.12$key\n${2:+  - {name: $2, address: $3$key\n}  roleGroups: {registry: [store], |
      s|worker: \[n1\]|worker: [n1${2:+, $2}]|
      s|bundle: {|bundle: {extraImages: [{name: \"$BUSYBOX\"}], |
      s|registry: {type: embedded}|registry: {type: harbor, dataDir: /srv/harbor, harborConfig: {$1}}|"
}
harbor_yaml 'config: {log: {level: info}}' > "$HARBORS/first.yaml"
harbor_yaml 'projectQuota: 40Gi, config: {log: {level: debug}}' > "$HARBORS/changed.yaml"
harbor_yaml 'projectQuota: 40Gi, config: {log: {level: debug}}' n2 10.77.0.13 > "$HARBORS/larger.yaml"
sed "s/version: v$LAB_K8S\$/version: v$LAB_K8S_NEXT/" "$HARBORS/larger.yaml" > "$HARBORS/next.yaml"
next() { install "$1" --bundle "$HARBORS/next.tar.zst" --allow-unsigned --accept-new-host-keys "${@:2}"; }
of() { install "$1" --bundle "$HARBORS/bundle.tar.zst" --allow-unsigned --accept-new-host-keys "${@:2}"; }
create() { of create -f "$HARBORS/$1.yaml" -y "${@:2}"; }
again() { nothing_done create "$1"; }
admin() { lab host root store cat /var/lib/kubexm-harbor/admin-password; }
harbor_asks() { registry_asks "$NAME" 10.77.0.12 443 "$HARBORS/ca.crt" "$@"; }
# asks METHOD PATH [CURL...]: Harbor, as its administrator
asks() { harbor_asks --user "admin:$(admin)" -X "$1" "https://$NAME$2" "${@:3}"; }
healthy() { asks GET /api/v2.0/health | grep '],"status":"healthy"}' || { asks GET /api/v2.0/health; return 1; }; }
# No rule of the host's tables is docker's, no bridge of its own is there, and FORWARD lets through what it did.
leaves_tables_alone() {
  local rules
  rules=$(lab host root store nft list ruleset)
  ! grep -iE 'docker|policy drop' <<< "$rules" || return 1
  ! lab host root store ip -br link show docker0 2> /dev/null
}
# Who asks without a token gets 401 for a public project too: nobody's token says what nobody may do.
private() {
  local scope=repository:registry.k8s.io/pause:pull token status
  token=$(harbor_asks "https://$NAME/service/token?service=harbor-registry&scope=$scope" | sed -n 's/.*"token": *"\([^"]*\)".*/\1/p') || return 1
  [ -n "$token" ] || { echo "nobody gets no token"; return 1; }
  status=$(harbor_asks -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $token" "https://$NAME/v2/registry.k8s.io/pause/manifests/3.10.1") || return 1
  [ "$status" = 401 ] || { echo "it answers $status to who has no login"; return 1; }
}
quota_is() {
  local id
  id=$(asks GET /api/v2.0/projects/registry.k8s.io | sed -n 's/.*"project_id":\([0-9]*\).*/\1/p')
  asks GET "/api/v2.0/quotas?reference=project&reference_id=$id" | grep -F "\"hard\":{\"storage\":$1}"
}
# Another team's, from a machine that has the name from its own DNS.
others_push() {
  asks POST /api/v2.0/projects -H 'Content-Type: application/json' -d '{"project_name": "team", "metadata": {"public": "false"}}' &&
    knowing "$NAME" 10.77.0.12 skopeo copy -q --insecure-policy --dest-cert-dir "$HARBORS/certs" --dest-creds "admin:$(admin)" \
      "oci:$LAB/oci/docker.io/library/busybox:1" "docker://$NAME/team/busybox:1"
}
others_are_there() { asks GET /v2/team/busybox/tags/list | grep '"1"'; }
others_bless() {
  knowing "$NAME" 10.77.0.12 skopeo copy -q --insecure-policy --src-cert-dir "$HARBORS/certs" --src-creds "admin:$(admin)" \
    --dest-cert-dir "$HARBORS/certs" --dest-creds "admin:$(admin)" \
    "docker://$NAME/registry.k8s.io/kube-proxy:v$LAB_K8S" "docker://$NAME/registry.k8s.io/kube-proxy:blessed"
}
tags_of() { asks GET "/v2/registry.k8s.io/$1/tags/list" | jq -r '.tags // [] | sort | join(" ")'; }
images_of_next_only() {
  local found
  found="$(tags_of kube-apiserver), $(tags_of kube-proxy)"
  echo "$found"
  [ "$found" = "v$LAB_K8S_NEXT, blessed v$LAB_K8S_NEXT" ]
}
# Of the data volume only what others pushed, and what opens it.
only_data_is_left() {
  local host rc=0
  states now
  for host in n1 n2; do same_state "before-$host" "now-$host" || rc=1; done
  lab host root store test -s /srv/harbor/kubexm/admin-password || { echo "the password that opens the data is gone"; return 1; }
  grep -v ' /srv' "$WORK/before-store" > "$WORK/before-without-data"
  grep -v ' /srv' "$WORK/now-store" > "$WORK/now-without-data"
  same_state before-without-data now-without-data && return "$rc"
}
trust() {
  mkdir -p "$HARBORS/certs"
  lab host root store cat /etc/kubexm/harbor/ca.crt > "$HARBORS/ca.crt" && cp "$HARBORS/ca.crt" "$HARBORS/certs/"
}
on_store() { lab host root store "$@"; }

lab host up n1 10.77.0.11 n2 10.77.0.13 store 10.77.0.12
states before
check "a bundle with Harbor, docker and compose" "$BUNDLE" build -f "$HARBORS/first.yaml" --zone "$LAB_ZONE" --catalogue "$HARBORS/overlay.yaml" \
  --cache "$WORK/cache" -o "$HARBORS/bundle.tar.zst"
on_store mkdir /etc/docker
on_store "echo {} > /etc/docker/daemon.json"
check "a docker of the operator's is named before anything is changed" says 53 "another docker: /etc/docker (daemon.json)" create first
on_store rm -r /etc/docker
on_store mkdir -p /srv/harbor/theirs
check "a data folder with files of others is named, and left" says 70 "/srv/harbor/theirs" create first
on_store rmdir /srv/harbor/theirs /srv/harbor
check "after that rollback every host is as before" as_before
check "a cluster comes up from Harbor" create first
[ "$HELD" = 1 ] || return 0
trust
check "it is healthy by its own report" healthy
check "its engine leaves the host's tables and links alone" leaves_tables_alone
check "nobody pulls without a login" private
check "kubelet's runtime pulls with its own" cri_pulls n1 "$BUSYBOX"
check "others push to projects of their own" others_push
check "a second create changes nothing" again first
check "a changed harborConfig is applied" create changed
check "projects have the quota" quota_is $((40 << 30))
check "what others pushed is there" others_are_there
check "and then nothing changes again" again changed
check "a worker is added, with images from Harbor" of add-node -f "$HARBORS/larger.yaml" -y
check "Harbor's host reboots" lab host reboot store
check "Harbor comes back by itself" within 120 healthy
check "and serves the new worker" within 120 cri_pulls n2 "$(image kube-apiserver)"
check "what others pushed is there after the reboot" others_are_there
check "a bundle of the next version" "$BUNDLE" build -f "$HARBORS/next.yaml" --zone "$LAB_ZONE" --catalogue "$HARBORS/overlay.yaml" \
  --cache "$WORK/cache" -o "$HARBORS/next.tar.zst"
sed 's|dataDir: /srv/harbor|dataDir: /srv/other|' "$HARBORS/next.yaml" > "$HARBORS/moved.yaml"
check "an upgrade that would leave Harbor's data behind is refused by name" says 53 "spec.registry.dataDir is" \
  next upgrade -f "$HARBORS/moved.yaml" -y
check "the cluster is upgraded, with images from Harbor" next upgrade -f "$HARBORS/next.yaml" -y
check "both kubelets have the new version" kubelets_are "$LAB_K8S_NEXT"
check "Harbor serves the new images" within 60 cri_pulls n2 "registry.k8s.io/kube-apiserver:v$LAB_K8S_NEXT"
check "what others pushed is there after the upgrade" others_are_there
check "a second upgrade changes nothing" nothing_done next upgrade -f "$HARBORS/next.yaml" -y
check "somebody gives an earlier image a tag of their own" others_bless
check "what earlier bundles pushed is removed from Harbor" says 0 "kept bundles only" install registry prune -f "$HARBORS/next.yaml" -y
check "Harbor has the images of the present version alone, and that one" images_of_next_only
check "what others pushed is there after the removal" others_are_there
check "again, nothing is removed" says 0 "nothing to do" install registry prune -f "$HARBORS/next.yaml" -y
check "Harbor still serves what the cluster has" cri_pulls n2 "registry.k8s.io/kube-apiserver:v$LAB_K8S_NEXT"
check "the cluster is reset" next reset -f "$HARBORS/next.yaml" -y
check "the snapshot of before the upgrade is there, and the operator removes it" snapshot_removed
check "after reset nothing is left but Harbor's data" only_data_is_left
check "a cluster comes up on the data that were left" create changed
trust
check "what others pushed is there again" others_are_there
check "data are deleted only by the cluster's name" says 20 "nothing was changed" of reset -f "$HARBORS/changed.yaml" -y --delete-registry-data other
check "a reset takes the data too if that is asked for" of reset -f "$HARBORS/changed.yaml" -y --delete-registry-data lab
check "of its folder, which was there before this cluster, only itself is left" on_store rmdir /srv/harbor
check "then hosts are as they were before" as_before
lab host down --all
HOME_NAME=home
