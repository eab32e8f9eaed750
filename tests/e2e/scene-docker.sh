# shellcheck shell=bash
# tier: hand
# seconds: 540
# needs: lab
# Docker with cri-dockerd in place of containerd on two hosts: every image is loaded from the nodes' stores, and kept; containers go on while docker restarts;
# the host's own network is left alone; certificates are renewed; both hosts reboot, and one of them leaves and comes back; the next version of Kubernetes comes. A reset leaves nothing.
#
# No registry or module proxy of the lab has cri-dockerd. Make it and docker's archive by hand, and run the scene by its name:
#   cri-dockerd   `CGO_ENABLED=0 go build -mod=vendor -ldflags "-s -w -X github.com/Mirantis/cri-dockerd/cmd/version.Version=0.3.25" .` in its repository at
#                 v0.3.25, in the folder cri-dockerd of ~/.cache/kubexm-lab/docker/cri-dockerd-0.3.25.amd64.tgz
#   docker        as `docker_of_debian` in tests/lab/harbor.sh lays it out, in the folder docker of ~/.cache/kubexm-lab/docker/docker-20.10.24.tgz
. "$ROOT/tests/e2e/network.sh"
. "$ROOT/tests/e2e/upgrade.sh"
say "docker on two hosts"
HOME_NAME=home-docker
FLEET=(n1 n2)
VERSION=20.10.24
ENGINE=$LAB/docker/docker-$VERSION.tgz
CRI=$LAB/docker/cri-dockerd-0.3.25.amd64.tgz
BUSYBOX=docker.io/library/busybox:1
PROGRAMS=/usr/local/lib/kubexm-docker
check "the archives of docker and cri-dockerd were made" test -s "$ENGINE" -a -s "$CRI"
[ "$HELD" = 1 ] || return 0
# served FILE FOLDER: as upstream serves it
served() { mkdir -p "$LAB/origin/$2" && cp "$1" "$LAB/origin/$2/"; }
served "$ENGINE" download.docker.com/linux/static/stable/x86_64
served "$CRI" github.com/Mirantis/cri-dockerd/releases/download/v0.3.25
# component NAME VERSION FILE: a line of an overlay
component() { echo "  $1: {versions: {\"$2\": {amd64: {sha256: $(sha256sum < "$3" | cut -d ' ' -f 1), size: $(stat -c %s "$3")}}}, default: \"$2\"}"; }
{ component docker "$VERSION" "$ENGINE"; component cri-dockerd 0.3.25 "$CRI"; } > "$WORK/docker-components.yaml"
sed "/^components:\$/r $WORK/docker-components.yaml" "$LAB_OVERLAY" > "$WORK/docker-overlay.yaml"
LAB_OVERLAY=$WORK/docker-overlay.yaml
lab cluster-yaml n1 10.77.0.11 n2 10.77.0.12 |
  sed "s|  network: |  runtime: {type: docker}\n&|; s|bundle: {|bundle: {extraImages: [{name: \"$BUSYBOX\"}], |" > "$WORK/docker.yaml"
sed 's|plugin: flannel|plugin: calico|; s|type: docker|type: docker, dataDir: /data/images|' "$WORK/docker.yaml" > "$WORK/refused.yaml"

docker_on() { lab host root "$1" "$PROGRAMS/docker" "${@:2}"; }
runs_docker() { [ "$(kubectl_on n1 get nodes -o 'jsonpath={.items[*].status.nodeInfo.containerRuntimeVersion}' | sed 's/+[^ ]*//g')" = "docker://$VERSION docker://$VERSION" ]; }
# Each has a container that is never started, and docker refuses to remove it.
all_kept() {
  local host image kept rc=0
  for host in "${FLEET[@]}"; do
    kept=$(docker_on "$host" container ls --all --no-trunc --filter label=io.kubexm.keeps-image --format '"{{.Label \"io.kubexm.keeps-image\"}}"')
    for image in $(docker_on "$host" image ls --no-trunc --format '"{{.Repository}}:{{.Tag}}={{.ID}}"'); do
      grep -qF "${image#*=}" <<< "$kept" || { echo "$host: nothing keeps $image"; rc=1; }
    done
    [ "$(wc -l <<< "$kept")" -gt 5 ] || { echo "$host keeps: $kept"; rc=1; }
    ! docker_on "$host" image rm busybox:1 > /dev/null 2>&1 || { echo "$host: docker removes an image that is kept"; rc=1; }
  done
  return "$rc"
}
# What is no business of a runtime: bridges, rules, FORWARD; and its sockets are root's and this host's alone.
leaves_the_host_alone() {
  local host rules rc=0
  for host in "${FLEET[@]}"; do
    rules=$(lab host root "$host" "nft list ruleset; iptables-save 2> /dev/null") || true
    ! grep -iE 'docker|hook forward.*policy drop|:FORWARD DROP' <<< "$rules" || rc=1
    ! lab host root "$host" ip -br link show docker0 2> /dev/null || rc=1
    [ "$(lab host root "$host" stat -c %a:%U:%G /run/docker.sock)" = 660:root:root ] || { echo "$host: docker's socket is others'"; rc=1; }
    lab host root "$host" "ss -ltnpH" > "$WORK/listens-$host"
    grep cri-dockerd "$WORK/listens-$host" | grep -qF 127.0.0.1: || { echo "$host: cri-dockerd listens nowhere"; rc=1; }
    ! grep -E 'cri-dockerd|dockerd|containerd' "$WORK/listens-$host" | grep -vF '127.0.0.1:' || rc=1
  done
  return "$rc"
}
shell_pod() {
  cat << YAML
apiVersion: v1
kind: Pod
metadata: {name: shell, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  nodeName: n2
  containers: [{name: shell, image: "$BUSYBOX", command: [sh, -c, "echo logged; sleep 3600"]}]
YAML
}
# By its log, its first process from inside, and a call into it.
shell_runs() {
  shell_pod | kubectl_on n1 apply -f - && kubectl_on n1 wait --for=condition=Ready pod/shell --timeout=60s || return 1
  [ "$(kubectl_on n1 logs shell)" = logged ] || { echo "its log is not what it wrote"; return 1; }
  [ "$(kubectl_on n1 exec shell -- echo called)" = called ] || { echo "nothing can be run in it"; return 1; }
}
goes_on_without_docker() {
  local before after
  before=$(kubectl_on n1 get pods -A -o 'jsonpath={.items[*].status.containerStatuses[*].containerID}') || return 1
  lab host root n2 "systemctl restart docker" || return 1
  within 60 docker_on n2 info > /dev/null || return 1
  sleep 15
  after=$(kubectl_on n1 get pods -A -o 'jsonpath={.items[*].status.containerStatuses[*].containerID}') || return 1
  [ "$before" = "$after" ] || { printf 'before %s\nafter %s\n' "$before" "$after"; return 1; }
  [ "$(kubectl_on n1 exec shell -- echo called)" = called ]
}
# By the registry's own name: its CA is trusted.
pulls_by_name() {
  local name=registry.lab.kubexm.internal:5443/registry.k8s.io/pause:3.10.1
  docker_on n2 pull --quiet "$name" && docker_on n2 image rm "$name"
}
nothing_of_docker() {
  local host found rc=0
  for host in "$@"; do
    found=$(lab host root "$host" "ls -d $PROGRAMS /usr/local/lib/kubexm-cri-dockerd /etc/docker /run/kubexm-docker /run/docker* /run/cri-dockerd* /var/lib/docker /var/lib/cri-dockerd \
      /opt/containerd /run/containerd 2> /dev/null; ps -e -o pid=,comm= | grep -E 'dockerd|containerd'; systemctl list-units --all --plain --no-legend '*docker*'; grep -E 'docker' /proc/self/mountinfo") || true
    [ -z "$found" ] || { echo "$host: $found"; rc=1; }
  done
  return "$rc"
}

check "what has not run with docker is refused by name" says 22 "spec.runtime.dataDir" install create --bundle "$FILE" -f "$WORK/refused.yaml" --allow-unsigned --accept-new-host-keys -y
check "a bundle has docker and cri-dockerd" bundle_of docker
[ "$HELD" = 1 ] || return 0
lab host up n1 10.77.0.11 n2 10.77.0.12
states before
lab host root n2 "mkdir /etc/docker && echo {} > /etc/docker/daemon.json"
check "another docker is named before anything is changed" says 53 "another docker: /etc/docker (daemon.json)" install_of docker create
lab host root n2 rm -r /etc/docker
check "both hosts are as they were" as_before
check "a cluster of two hosts comes up with docker" install_of docker create
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" within 120 nodes_ready 2
check "their runtime is docker" runs_docker
check "every pod runs" within 90 all_running n1
check "a second create changes nothing" nothing_to_do docker
check "every image is kept" all_kept
check "the host's network and its users are left alone" leaves_the_host_alone
check "a pod with an image of the user's runs, logs, and can be called" shell_runs
check "containers go on while docker restarts" goes_on_without_docker
check "and while the next create restarts it, which does not know with what it was started" install_of docker create
check "and nothing has become of them" shell_runs
kubectl_on n1 delete pod shell --wait=true > /dev/null
check "then a create changes nothing" nothing_to_do docker
check "an image can be pulled by the registry's own name" pulls_by_name
check "and from nowhere else" says 1 "127.0.0.1:1: connect: connection refused" docker_on n2 pull docker.io/library/alpine:3
check "pods reach each other across hosts, and a service by its name" across_hosts
check "certificates are renewed, and their readers restarted" install certs renew --force -f "$WORK/docker.yaml" --accept-new-host-keys -y
check "every pod runs with them" within 120 all_running n1
check "after that a create changes nothing" nothing_to_do docker
booted=$(date -u +%FT%TZ)
check "both hosts reboot" lab host reboot --all
check "every pod runs again" within 180 all_running_since n1 "$booted"
check "after the reboot a create changes nothing" nothing_to_do docker
lab host root n2 "$PROGRAMS/docker container rm \$($PROGRAMS/docker container ls --all --quiet --filter label=io.kubexm.keeps-image) && $PROGRAMS/docker image rm busybox:1 --force" > /dev/null
check "what a hand has removed comes back" install_of docker create
check "and is kept again" all_kept
check "the worker leaves" install_of docker delete-node n2
FLEET=(n2)
check "it is as it was before" as_before
check "nothing of docker is left on it" nothing_of_docker n2
FLEET=(n1 n2)
check "it comes back" install_of docker add-node
check "both nodes are Ready again" within 120 nodes_ready 2
check "pods reach each other again" across_hosts
sed "s/version: v$LAB_K8S\$/version: v$LAB_K8S_NEXT/" "$WORK/docker.yaml" > "$WORK/docker-next.yaml"
check "a bundle of the next version" bundle_of docker-next
check "the cluster is upgraded" install_of docker-next upgrade
check "both kubelets have the new version" kubelets_are "$LAB_K8S_NEXT"
check "every image is kept after it" all_kept
check "every pod runs with the new version" within 120 all_running n1
check "then a create changes nothing more" nothing_to_do docker-next
check "the cluster is reset" install_of docker-next reset
check "the snapshot of before the upgrade is there, and the operator removes it" snapshot_removed
check "every host is as it was before" as_before
check "nothing of docker is left" nothing_of_docker n1 n2
FLEET=(n1)
HOME_NAME=home-docker-none
lab host down n2
lab cluster-yaml n1 10.77.0.11 | sed "s|  network: |  runtime: {type: docker}\n&|; s|type: embedded|type: none|" > "$WORK/docker-none.yaml"
check "a bundle of one host without a registry" bundle_of docker-none
check "it comes up" install_of docker-none create
check "its node is Ready" within 120 nodes_ready 1
check "every pod of it runs" within 90 all_running n1
check "a second create changes nothing there" nothing_to_do docker-none
check "it is reset" install_of docker-none reset
check "it is as it was before all of it" as_before
check "and nothing of docker is left there" nothing_of_docker n1
lab host down --all
HOME_NAME=home
