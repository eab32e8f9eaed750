# shellcheck shell=bash
# tier: long
# seconds: 330
# needs: lab
# The registries beside the embedded one, and the containerd line before 2, on two clusters that are installed side by side:
# `plain` is two hosts with the distribution registry and containerd 1.7, behind a load balancer of the site's; `bare` is one host
# without any registry, and with an image of the user's.
. "$ROOT/tests/e2e/fleet.sh"
say "registries: the distribution registry with containerd 1.7, and none at all"
# shellcheck disable=SC1091  # the lab's
CONTAINERD_1=$(. "$ROOT/tests/lab/versions.sh" && echo "$LAB_CONTAINERD_1")
BUSYBOX=docker.io/library/busybox:1
# shellcheck disable=SC2034  # fleet.sh reads it
FLEET=(r1 r2 r3)
lab cluster-yaml r3 10.77.0.23 | sed "s/registry: {type: embedded}/registry: {type: none}/
  s,bundle: {,bundle: {extraImages: [{name: \"$BUSYBOX\"}]\, ," > "$WORK/bare.yaml"
lab cluster-yaml r1 10.77.0.21 r2 10.77.0.22 | sed "s/registry: {type: embedded}/registry: {type: registry}/
  \$a\\  runtime: {type: containerd, version: $CONTAINERD_1}\n  loadBalancer: {mode: external, external: {type: external}, vip: 10.77.0.1, port: 8443}" > "$WORK/plain.yaml"

# of CLUSTER VERB ARGS...: the installer, with a home of its own for each of the two
of() { HOME_NAME=home-$1 install "$2" --bundle "$WORK/$1.tar.zst" --allow-unsigned --accept-new-host-keys "${@:3}"; }
bundle_of() { "$BUNDLE" build -f "$WORK/$1.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/$1.tar.zst"; }
# aside NAME CMD..., then ended NAME: it continues while other things are looked at; its exit code is a file, since `check` is another shell
aside() { local name=$1; shift; rm -f "$WORK/$name".{out,code}; { "$@" > "$WORK/$name.out" 2>&1 && echo 0 || echo "$?"; } > "$WORK/$name.code" & }
ended() {
  within 300 test -s "$WORK/$1.code" || true
  cat "$WORK/$1.out"
  return "$(cat "$WORK/$1.code")"
}
again() {
  of "$1" create -y --json > "$WORK/again-$1.jsonl" || { tail -n 3 "$WORK/again-$1.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again-$1.jsonl"
}
# image REF DIGEST LABELS of each; ids that CRI adds are left out
images_on() { lab host root "$1" ctr -n k8s.io images ls 2> /dev/null | awk '/sha256:/ && $1 !~ /^sha256:/ { print $1, $NF }'; }
every_image_pinned() {
  local all; all=$(images_on "$1")
  [ "$(wc -l <<< "$all")" -gt 2 ] && ! grep -v 'io.cri-containerd.pinned=pinned' <<< "$all"
}
user_image_pinned() { images_on r3 | grep -F "$BUSYBOX " | grep -q 'io.cri-containerd.pinned=pinned'; }
config_dump() { lab host root "$1" containerd config dump 2> /dev/null; }
takes_our_config() {
  lab host root "$1" containerd --version | grep -F " v$2 " || return 1
  local dump wanted; dump=$(config_dump "$1"); shift 2
  for wanted in "$@"; do grep -F "$wanted" <<< "$dump" || { echo "no $wanted"; return 1; }; done
}
asks_nobody() { ! lab host root r3 'ls /etc/containerd/certs.d' | grep -v '^_default$'; }
# a blob that the registry served yesterday; it goes whenever the registry starts, as on a disk that loses files
# shellcheck disable=SC2016  # for the host's shell
lose_a_blob() {
  lab host root r1 'blob=$(find /mnt/registry -name data -size +100k | sort | head -n 1); [ -n "$blob" ] || exit 1
    mkdir -p /etc/systemd/system/kubexm-registry.service.d
    printf "[Service]\nExecStartPre=+/bin/rm -f %s\n" "$blob" > /etc/systemd/system/kubexm-registry.service.d/lost.conf
    systemctl stop kubexm-registry.service'
}
heal_the_disk() { lab host root r1 rm -r /etc/systemd/system/kubexm-registry.service.d; }

lab host up r1 10.77.0.21 r2 10.77.0.22 r3 10.77.0.23
states before
aside bundle bundle_of plain
check "a bundle for a cluster without a registry" bundle_of bare
check "a bundle with the distribution registry and containerd $CONTAINERD_1" ended bundle

# What is between r2 and r1 lets connections to the depot through, so that preflight likes it, and breaks what is said on them.
lab host root r1 'nft -f -' << 'NFT'
table inet site {
  chain in { type filter hook input priority 0; ip saddr 10.77.0.22 tcp dport 5443 meta length > 150 reject with tcp reset; }
}
NFT
# The time bounds it, should this scene end early.
nsenter --net="/run/netns/$LAB_NET" timeout 1800 "$ROOT/tests/e2e/balancer.py" 10.77.0.1:8443 10.77.0.21:6443 > "$WORK/balancer.log" 2>&1 &
BALANCER=$!
aside plain of plain create -y
check "a cluster without a registry comes up" of bare create -y
check "a cluster with the distribution registry and containerd 1.7 comes up" ended plain
[ "$HELD" = 1 ] || return 0
lab host root r1 nft delete table inet site
check "a depot that breaks off is a warning, and the controller sends in its place" \
  grep -F "warning: r2/store.fill: depot https://10.77.0.21:5443" "$WORK/plain.out"
check "a worker goes to the API through the load balancer" \
  lab host root r2 "grep -F 'server: https://lb.lab.kubexm.internal:8443' /etc/kubernetes/kubelet.conf"
check "containerd 1.7 takes the config of its own shape" takes_our_config r2 "$CONTAINERD_1" \
  'sandbox_image = "registry.k8s.io/pause:' 'config_path = "/etc/containerd/certs.d"' 'SystemdCgroup = true'
check "every image is pinned (distribution registry, containerd 1.7)" every_image_pinned r2
check "every image is pinned (no registry, containerd 2)" every_image_pinned r3
check "the user's own image is on the node, pinned, without a pod that wants it" user_image_pinned
check "without a registry containerd asks nobody" asks_nobody

aside again again plain
check "a second create changes nothing (no registry)" again bare
check "a second create changes nothing (distribution registry)" ended again
lose_a_blob
aside audit of plain create -y --on-failure keep
check "a cluster without a registry is reset" of bare reset -f "$WORK/bare.yaml" -y
check "a blob that the registry lost is named by its audit" says 70 "references and blobs: https://registry.lab.kubexm.internal:5000/v2/" ended audit
heal_the_disk
check "the next create lays it out again" of plain create -y
check "a cluster with the distribution registry is reset" of plain reset -f "$WORK/plain.yaml" -y
check "after reset every host of both is as it was before" as_before
kill "$BALANCER" || true
lab host down --all
HOME_NAME=home
