# shellcheck shell=bash
# Three control planes: with etcd as a service of kubexm's, whose members start together, beside kubeadm's, whose members join one after the
# other. Turn by turn on fresh hosts.
PLANES=(b1 10.77.0.31 b2 10.77.0.32 b3 10.77.0.33)

say "three control planes"
lab net up
for kind in kubeadm kubexm; do
  lab cluster-yaml --control-planes 3 "${PLANES[@]}" | sed "s|etcd: {type: kubeadm}|etcd: {type: $kind}|" > "$WORK/planes-$kind.yaml"
  "$BUNDLE" build -f "$WORK/planes-$kind.yaml" --zone "$WORK/origins/run/zone.yaml" --catalogue "$WORK/origins/run/overlay.yaml" --cache "$CACHE" \
    -o "$WORK/planes-$kind.tar.zst" > "$WORK/planes-build.log" 2>&1 || { tail -n 20 "$WORK/planes-build.log" >&2; exit 1; }
done
fresh_planes() {
  lab host down --all >&2
  lab host up "${PLANES[@]}" >&2
  rm -rf "${WORK:?}/home" "$WORK/known_hosts"
}
planes_create() {
  lab in-net env KUBEXM_HOME="$WORK/home" "$INSTALL" create --bundle "$WORK/planes-$1.tar.zst" -f "$WORK/planes-$1.yaml" -y --json --accept-new-host-keys \
    --known-hosts "$WORK/known_hosts"
}
export -f lab planes_create
export ROOT LAB WORK INSTALL

for round in $(seq "$RUNS"); do
  for kind in kubeadm kubexm; do
    warm "$WORK/planes-$kind.tar.zst"
    fresh_planes
    timed "$round" "planes-$kind" bash -c "planes_create $kind"
  done
done
