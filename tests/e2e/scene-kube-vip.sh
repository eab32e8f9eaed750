# shellcheck shell=bash
# tier: hand
# seconds: 500
# needs: lab
# kube-vip on the control planes: two come up behind the address that it moves, a third joins; the holder loses its kube-vip, its network, its
# host; a control plane leaves; a reset leaves nothing. A client asks through the address all the time.
#
# No registry or module proxy of the lab has kube-vip. Build it (`CGO_ENABLED=0 go build` in its repository, at the version of
# manifests/data/features/kube-vip.yaml), make its image in the lab's folder of images, and run the scene by its name:
#   tests/lab/mkimg.py ~/.cache/kubexm-lab/oci/ghcr.io/kube-vip/kube-vip ghcr.io/kube-vip/kube-vip:v1.0.3 \
#     --file ./kube-vip:/kube-vip:755 --entrypoint '["/kube-vip"]' >> ~/.cache/kubexm-lab/oci/images.tsv
say "kube-vip on the control planes"
HOME_NAME=home-kube-vip
KIND=kube-vip PROXY=kube-vip
. "$ROOT/tests/e2e/vip.sh"
FLEET=(n1 n2 n3 n4)
BALANCERS=()
PLANES=(n1 n2 n3)
kube_vip_yaml() {
  lab cluster-yaml --control-planes "$1" "${@:2}"
  echo "  loadBalancer: {mode: internal, internal: {type: kube-vip}, vip: $VIP}"
}
kube_vip_yaml 2 n1 10.77.0.11 n2 10.77.0.12 n4 10.77.0.14 > "$WORK/vip-2.yaml"
kube_vip_yaml 3 n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13 n4 10.77.0.14 > "$WORK/vip-3.yaml"

check "a bundle has kube-vip" vip_bundle
[ "$HELD" = 1 ] || return 0
lab host up n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13 n4 10.77.0.14
states before

say "what is refused before any change"
lab host root n3 ip address add $VIP/24 dev host0
check "an address that a machine outside of the cluster has" says 53 "hardware address" vip vip-2 create
lab host root n3 ip address del $VIP/24 dev host0
lab host root n2 ip address add $VIP/24 dev host0
check "one that a host has as its own" says 53 "$VIP on host0" vip vip-2 create
lab host root n2 ip address del $VIP/24 dev host0

say "a cluster behind the address"
# settled: the holder, once it is the same for three seconds
settled() {
  local before='' now
  for _ in $(seq 30); do
    now=$(holder)
    if [ "$(wc -w <<< "$now")" = 1 ] && [ "$now" = "$before" ]; then break; fi
    before=$now
    sleep 3
  done
  echo "$now"
}
holder() { local host; for host in "${PLANES[@]}"; do ! has_it "$host" 2> /dev/null || echo "$host"; done; }
kube_vip_status() { install status -f "$WORK/vip-3.yaml" > "$WORK/vip-status" || true; grep "$(holder) .*has the address" "$WORK/vip-status"; }
check "two control planes come up behind it" vip vip-2 create
[ "$HELD" = 1 ] || return 0
check "every node is Ready" within 180 vip_ready 3
check "exactly one host has the address" within 60 one_holder
check "the API answers through it" within 60 answers
check "the worker asks through it" within 60 through
of_admin() { [ "$(lab host root n1 readlink /etc/kubexm/kube-vip.conf)" = /etc/kubernetes/admin.conf ]; }
check "after init it has the administrator's rights of a cluster, and no more" of_admin
check "a second create changes nothing" vip_nothing_to_do vip-2
check "a control plane is added, and the client sees nothing of it" during join 2 vip vip-3 add-node
check "status shows who has it" kube_vip_status
check "a further create changes nothing" vip_nothing_to_do vip-3

say "what the holder loses"
check "exactly one host has the address before" within 60 one_holder
HOLDER=$(settled)
check "its kube-vip is killed" during kube-vip 12 lose "$HOLDER" "pkill -9 -x kube-vip"
check "exactly one host has the address then" within 60 one_holder
HOLDER=$(settled)
check "its network is gone, without a word" during network 20 lab net cut "$HOLDER" 12
check "exactly one host has it when the network is back" within 60 one_holder
HOLDER=$(settled)
check "its host is switched off" during off 20 lab host stop "$HOLDER"
check "another one has it" within 60 one_holder
check "the host is back" lab host up "$HOLDER" "10.77.0.1${HOLDER#n}"
check "every node is Ready again" within 240 vip_ready 4
check "exactly one host has it" within 60 one_holder
cat "$WORK/vip-figures"

say "a control plane leaves, and all go"
LEAVES=$(settled); [ "$LEAVES" != n1 ] || LEAVES=n3
check "a control plane leaves" during leave 5 vip vip-3 delete-node "$LEAVES"
check "it has the address no more" within 60 one_holder
gone() { ! has_it "$LEAVES"; }
check "and nothing of it" gone
check "the cluster is reset" vip vip-3 reset
check "every host is as it was before" as_before
lab host down --all
HOME_NAME=home
