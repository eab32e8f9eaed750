# shellcheck shell=bash
# tier: hand
# seconds: 600
# needs: lab
# CRI-O in place of containerd on two hosts: images come from the cluster's registry, which demands a login, and are pinned; certificates are renewed; both
# hosts reboot, one of them leaves and comes back, and both get the next Kubernetes and CRI-O while a Deployment answers. What an operator has put beside kubexm's configuration is kept, and named where it breaks it. A reset
# leaves nothing.
#
# No registry or module proxy of the lab has CRI-O. Build it, and what its archive has, by hand, and run the scene by its name:
#   crio     of both versions below: `go build -mod=vendor -tags "containers_image_openpgp exclude_graphdriver_btrfs btrfs_noversion seccomp selinux apparmor osusergo netgo" -ldflags
#            "-linkmode external -extldflags -static" ./cmd/crio` in its repository (libseccomp-dev); pinns: `make` in its folder pinns
#   conmon   `make bin/conmon PKG_CONFIG="pkg-config --static" CFLAGS=-static` in github.com/containers/conmon (libglib2.0-dev)
#   crictl   `CGO_ENABLED=0 go build -mod=vendor ./cmd/crictl` in github.com/kubernetes-sigs/cri-tools
#   runc     the lab's (~/.cache/kubexm-lab/bin/runc) as runc.lab, and tests/lab/cri-o-runc as runc
# These, for each version, in the folder cri-o/bin of ~/.cache/kubexm-lab/cri-o/cri-o.amd64.vVERSION.tar.gz.
. "$ROOT/tests/e2e/network.sh"
. "$ROOT/tests/e2e/upgrade.sh"
say "CRI-O on two hosts"
HOME_NAME=home-cri-o
FLEET=(n1 n2)
VERSION=1.34.10
NEXT=1.34.11
archive() { echo "$LAB/cri-o/cri-o.amd64.v$1.tar.gz"; }
OF_OTHERS=/etc/crio/crio.conf.d
check "the archives of CRI-O were made" test -s "$(archive $VERSION)" -a -s "$(archive $NEXT)"
[ "$HELD" = 1 ] || return 0
served=storage.googleapis.com/cri-o/artifacts
mkdir -p "$LAB/origin/$served" && cp "$(archive $VERSION)" "$(archive $NEXT)" "$LAB/origin/$served/"
# pinned VERSION: as the catalogue has it
pinned() { local sum; sum=$(sha256sum < "$(archive "$1")"); echo "\"$1\": {amd64: {sha256: ${sum%% *}, size: $(stat -c %s "$(archive "$1")")}}"; }
sed "s|^rules:|&\n- {match: storage.googleapis.com, to: [\"http://127.0.0.1:$LAB_FILES_PORT/storage.googleapis.com\"], only: true}|" "$LAB_ZONE" > "$WORK/cri-o-zone.yaml"
sed "s|^components:\$|&\n  cri-o: {versions: {$(pinned $VERSION), $(pinned $NEXT)}}|" "$LAB_OVERLAY" > "$WORK/cri-o-overlay.yaml"
LAB_ZONE=$WORK/cri-o-zone.yaml LAB_OVERLAY=$WORK/cri-o-overlay.yaml
(umask 077; echo puller-4711-secret > "$WORK/puller")
lab cluster-yaml n1 10.77.0.11 n2 10.77.0.12 | sed "s|  network: |  runtime: {type: cri-o, version: $VERSION}\n&|; s|registry: {type: embedded}|registry: {type: embedded, auths: \
{registry.lab.kubexm.internal: {username: puller, passwordFrom: {file: $WORK/puller}}}}|" > "$WORK/cri-o.yaml"
sed 's|plugin: flannel|plugin: calico|; s|type: cri-o,|type: cri-o, dataDir: /data/images,|' "$WORK/cri-o.yaml" > "$WORK/refused.yaml"

on_each() { local host; for host in "${FLEET[@]}"; do lab host root "$host" "$@" || return 1; done; }
put() { lab host root "$1" "mkdir -p $(dirname "$2") && cat > $2"; }
crictl_on() { lab host root "$1" /usr/local/lib/cri-o/crictl --runtime-endpoint unix:///run/crio/crio.sock "${@:2}"; }
runs_cri_o() { [ "$(kubectl_on n1 get nodes -o 'jsonpath={.items[*].status.nodeInfo.containerRuntimeVersion}')" = "cri-o://$1 cri-o://$1" ]; }
# Every image that a pod of the cluster itself uses.
all_pinned() {
  local host
  for host in "${FLEET[@]}"; do
    crictl_on "$host" images --output json > "$WORK/images-$host.json" || return 1
    python3 - "$WORK/images-$host.json" << 'PY' || return 1
import json, sys
images = json.load(open(sys.argv[1]))["images"]
loose = [image["repoTags"] for image in images if not image["pinned"]]
assert len(images) > 3 and not loose, f"not pinned: {loose} of {len(images)}"
PY
  done
}
private() { [ "$(lab host root "$1" stat -c %a:%U "$2")" = 600:root ]; }
# Neither in the controller's folder nor in a log or an argument of a host.
password_is_nowhere() {
  local host word rc=0
  for word in puller-4711-secret "$(printf %s puller:puller-4711-secret | base64)"; do
    ! grep -rlF "${word%%=*}" "$WORK/$HOME_NAME" || rc=1
    for host in "${FLEET[@]}"; do
      ! lab host root "$host" "journalctl -q --no-pager | grep -F ${word%%=*}; grep -rlF ${word%%=*} /var/lib/kubexm /var/log 2> /dev/null" | grep . || rc=1
    done
  done
  return "$rc"
}
kept() { lab host root n2 "grep -q 'log_size_max = 9000' $OF_OTHERS/95-site.conf" && lab host root n2 /usr/local/lib/cri-o/crio status config | grep -q 'log_size_max = 9000'; }
nothing_of_cri_o() {
  local host found rc=0
  for host in "$@"; do
    found=$(lab host root "$host" "ls -d /usr/local/lib/cri-o /etc/crio/kubexm* $OF_OTHERS/90-kubexm.conf /etc/containers /run/crio /run/containers /var/lib/crio /var/lib/containers \
      /var/log/crio /run/runc 2> /dev/null; pgrep -a 'crio|conmon'; systemctl list-units --all --plain --no-legend 'crio*'; grep -E 'crio|containers' /proc/self/mountinfo") || true
    [ -z "$found" ] || { echo "$host: $found"; rc=1; }
  done
  return "$rc"
}

upgrades_nothing() { install_of cri-o-next upgrade --json > "$WORK/again.jsonl" && python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again.jsonl"; }

check "what has not run with CRI-O is refused by name" says 22 "spec.runtime.dataDir" install create --bundle "$FILE" -f "$WORK/refused.yaml" --allow-unsigned --accept-new-host-keys -y
check "a bundle has CRI-O" bundle_of cri-o
[ "$HELD" = 1 ] || return 0
lab host up n1 10.77.0.11 n2 10.77.0.12
put n2 $OF_OTHERS/95-site.conf <<< $'[crio.runtime]\nlog_size_max = 9000'
states before
put n1 $OF_OTHERS/99-site.conf <<< $'[crio.runtime]\ncgroup_manager = "cgroupfs"'
check "a file of an operator that breaks kubexm's is named before anything is changed" says 53 "crio.runtime.cgroup_manager" install_of cri-o create
lab host root n1 "rm -r /etc/crio"
check "both hosts are as they were" as_before
check "a cluster of two hosts comes up with CRI-O" install_of cri-o create
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" within 120 nodes_ready 2
check "their runtime is CRI-O" runs_cri_o "$VERSION"
check "every pod runs" within 90 all_running n1
check "a second create changes nothing" nothing_to_do cri-o
check "every image of the cluster is pinned" all_pinned
check "the login is root's alone" private n1 /etc/crio/kubexm-auth.json
check "and its password is nowhere else" password_is_nowhere
check "the operator's own file is kept, and holds" kept
check "pods reach each other across hosts, and a service by its name" across_hosts
check "certificates are renewed, and their readers restarted" install certs renew --force -f "$WORK/cri-o.yaml" --accept-new-host-keys -y
check "every pod runs with them" within 120 all_running n1
check "after that a create changes nothing" nothing_to_do cri-o
booted=$(date -u +%FT%TZ)
check "both hosts reboot" lab host reboot --all
check "every pod runs again" within 180 all_running_since n1 "$booted"
check "after the reboot a create changes nothing" nothing_to_do cri-o
check "the worker leaves" install_of cri-o delete-node n2
FLEET=(n2)
check "it is as it was before" as_before
check "nothing of CRI-O is left on it" nothing_of_cri_o n2
FLEET=(n1 n2)
check "it comes back" install_of cri-o add-node
check "both nodes are Ready again" within 120 nodes_ready 2
check "pods reach each other again" across_hosts
sed "s/version: v$LAB_K8S\$/version: v$LAB_K8S_NEXT/; s/version: $VERSION}/version: $NEXT}/" "$WORK/cri-o.yaml" > "$WORK/cri-o-next.yaml"
check "a bundle of the next version" bundle_of cri-o-next
check "a Deployment answers requests" web_answers
asking web n2
check "the cluster is upgraded" install_of cri-o-next upgrade
ended_asking n2
check "both kubelets have the new version" kubelets_are "$LAB_K8S_NEXT"
check "and the new CRI-O" within 60 runs_cri_o "$NEXT"
check "every image of the cluster is pinned after it" all_pinned
check "every pod runs with the new version" within 120 all_running n1
check "the Deployment has answered every request" answered web 0
check "a second upgrade changes nothing" upgrades_nothing
check "then a create changes nothing more" nothing_to_do cri-o-next
# across_hosts has others of its name and label
web_gone() { kubectl_on n1 delete deployment,service,poddisruptionbudget web --cascade=foreground && kubectl_on n1 wait --for=delete pod -l app=web --timeout=60s; }
check "it goes" web_gone
check "pods reach each other after it" across_hosts
check "the cluster is reset" install_of cri-o-next reset
check "the snapshot of before the upgrade is there, and the operator removes it" snapshot_removed
check "every host is as it was before" as_before
check "nothing of CRI-O is left" nothing_of_cri_o n1 n2
lab host down --all
HOME_NAME=home
