# shellcheck shell=bash
# Three hosts of one cluster: two control planes and a worker, reached as a user whose sudo asks for a password. They lack what
# kubelet calls (`--bare`): each install brings it as packages, and each rollback takes it away.
. "$ROOT/tests/e2e/host.sh"
. "$ROOT/tests/e2e/cluster.sh"

FLEET=(n1 n2 n3)
FLEET_ADDRESSES=(n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13)
# The same place for all lanes, since cluster.yaml names it.
SUDO_PASSWORD=$TOP/sudo-password
FLEET_YAML=$WORK/fleet.yaml
FLEET_FILE=$TOP/fleet.tar.zst
# shellcheck disable=SC2034  # the scenes use it
SEED=${E2E_SEED:-4}

# with_packages [SYSTEM]: of a cluster.yaml, one whose bundle has the distribution's packages; the first host has the time
with_packages() { sed "s|bundle: {|bundle: {os: [debian-12], |; s|^spec:|spec:\n  system: {${1:-ntpServers: [n1]}}|"; }

# fleet_up [whole]: fresh hosts, and what they are before anything of ours; `whole` ones lack nothing, and get no packages
fleet_up() {
  fleet_hosts "$@"
  states before
}
# write_fleet_yaml with_packages|cat
write_fleet_yaml() { lab cluster-yaml --control-planes 2 --sudo-password "$SUDO_PASSWORD" "${FLEET_ADDRESSES[@]}" | "$1" > "$FLEET_YAML"; }
fleet_hosts() {
  local base=(--bare) yaml=with_packages
  [ "${1:-}" != whole ] || base=() yaml=cat
  # Whole at any moment: the other lane may read it.
  (umask 077; echo "correct horse 'battery' \$staple" > "$WORK/sudo-password" && mv "$WORK/sudo-password" "$SUDO_PASSWORD")
  write_fleet_yaml "$yaml"
  lab host up "${FLEET_ADDRESSES[@]}" "${base[@]}" --sudo-password "$SUDO_PASSWORD"
}

# fleet_bundle: carries what these hosts lack; built by whoever needs it first
fleet_bundle() (
  flock 8
  [ -s "$FLEET_FILE" ] ||
    "$BUNDLE" build -f "$FLEET_YAML" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$FLEET_FILE"
) 8>> "$TOP/fleet.lock"

# on_fleet CMD...: with each host's name as the last word, all at once
on_fleet() {
  local host pids=() pid rc=0
  for host in "${FLEET[@]}"; do "$@" "$host" & pids+=($!); done
  for pid in "${pids[@]}"; do wait "$pid" || rc=1; done
  return "$rc"
}

# fleet VERB ARGS...: the installer, for these three
fleet() { install "$1" --bundle "$FLEET_FILE" "${@:2}"; }
fleet_create() { fleet create -f "$FLEET_YAML" -y --accept-new-host-keys "$@"; }
# resume has no -f of its own when the run is known, but the cluster is still this one
fleet_resume() { fleet resume -f "$FLEET_YAML" "$@"; }

# states NAME: $WORK/NAME-HOST of every host, once nothing starts any more
states() { on_fleet one_state "$1"; }
one_state() {
  # shellcheck disable=SC2016  # for the host's shell
  within 60 lab host root "$2" 'case $(systemctl is-system-running) in running|degraded) ;; *) exit 1 ;; esac' || true
  lab host root "$2" sh -s < "$ROOT/tests/e2e/host-state.sh" > "$WORK/$1-$2"
}

# same_state BEFORE NOW: but for the books that dpkg, apt and ucf keep, and the copies that a new user makes of the old lists
same_state() {
  local books='/etc/(group|gshadow|passwd|shadow)-|/var/lib/ucf/(hashfile|registry)\.[0-9]|/var/lib/dpkg/(status|status-old|statoverride-old)|/var/lib/apt/extended_states'
  grep -vE " ($books)(\s|\$)" "$WORK/$1" > "$WORK/without-books-$1"
  grep -vE " ($books)(\s|\$)" "$WORK/$2" > "$WORK/without-books-$2"
  same "$WORK/without-books-$1" "$WORK/without-books-$2"
}

# as_before: every host is what it was before anything of ours
as_before() {
  local host rc=0
  states now
  for host in "${FLEET[@]}"; do same_state "before-$host" "now-$host" || rc=1; done
  return "$rc"
}

# The comparison would be worth nothing if it did not see a cluster: something of every kind is different.
sees_a_cluster() {
  local kinds kind
  one_state with-cluster n1
  kinds=$(diff "$WORK/before-n1" "$WORK/with-cluster-n1" | sed -n 's/^[<>] \([^ ]*\) .*/\1/p' | sort -u | tr '\n' ' ')
  for kind in file sum link address route unit unit-file unit-at mount sysctl nft netns cgroup process; do
    [[ " $kinds " == *" $kind "* ]] || { echo "no $kind is different, but: $kinds"; return 1; }
  done
}

fleet_ready() { [ "$(kubectl_on n1 get nodes --no-headers | grep -c ' Ready ')" = "${#FLEET[@]}" ]; }
fleet_becomes_ready() { within "${1:-180}" fleet_ready; }

# kubelet_ends HOST CONFIG: its certificate is one that ends in some seconds, signed on the first control plane with kubeadm's config there
kubelet_ends() {
  local data
  lab host root n1 kubeadm kubeconfig user --org system:nodes --client-name "system:node:$1" --validity-period 20s \
    --config "$2" > "$WORK/kubelet.conf" || return 1
  sed -n 's/^ *client-certificate-data: //p; s/^ *client-key-data: //p' "$WORK/kubelet.conf" | while read -r data; do
    base64 -d <<< "$data"
  done > "$WORK/kubelet.pem"
  # It would renew it at once while the API answers.
  lab host root "$1" systemctl stop kubelet || return 1
  lab host root "$1" 'umask 077; cat > /var/lib/kubelet/pki/kubelet-client-ended.pem' < "$WORK/kubelet.pem" || return 1
  lab host root "$1" ln -sf kubelet-client-ended.pem /var/lib/kubelet/pki/kubelet-client-current.pem
}

# fleet_objects NAME: every object, once kubelets have told the API of their static pods; they do so when they get to it
fleet_objects() {
  within 120 static_pods n1 n2 || return 1
  objects n1 > "$WORK/objects-$1"
}
static_pods() {
  local pods host part
  pods=$(kubectl_on n1 -n kube-system get pods --no-headers -o custom-columns=:.metadata.name)
  for host in "$@"; do
    for part in etcd kube-apiserver kube-controller-manager kube-scheduler; do
      grep -qx "$part-$host" <<< "$pods" || { echo "the API knows no pod $part-$host"; return 1; }
    done
  done
}

fleet_trees() { on_fleet one_tree "$1"; }
one_tree() { tree "$2" > "$WORK/tree-$1-$2"; }
# same_trees BEFORE NOW: of each host, files BEFORE-HOST and NOW-HOST
same_trees() {
  local host rc=0
  for host in "${FLEET[@]}"; do same "$1-$host" "$2-$host" || rc=1; done
  return "$rc"
}

# A create where all holds: no step does anything, no file of any host is another.
fleet_changes_nothing() {
  fleet_trees still-before
  fleet_create --json > "$WORK/again.jsonl" || { tail -n 3 "$WORK/again.jsonl"; return 1; }
  fleet_trees still-after
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again.jsonl"
  same_trees "$WORK/tree-still-before" "$WORK/tree-still-after"
}

# fleet_created: notes the run that made the cluster, for whoever starts from it
fleet_created() { basename "$(last_run)" > "$WORK/$HOME_NAME/created"; }

# the folder of the last run
last_run() { find "$WORK/$HOME_NAME/clusters/lab/runs" -mindepth 1 -maxdepth 1 -type d | sort | tail -n 1; }
journal() { python3 "$ROOT/tests/e2e/journal.py" "$1" "$(last_run)" "${@:2}"; }
