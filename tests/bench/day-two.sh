# shellcheck shell=bash
# The next patch version on one control plane and one worker, beside what a person would type, turn by turn on fresh hosts; then each
# command of day two once more, where it has nothing to do.
DAY_TWO=(b1 10.77.0.31 b2 10.77.0.32)
DAY_TWO_HOSTS="b1=10.77.0.31 b2=10.77.0.32"
. "$ROOT/tests/lab/versions.sh"

say "day two"
lab net up
for version in "$LAB_K8S" "$LAB_K8S_NEXT"; do
  lab cluster-yaml "${DAY_TWO[@]}" | sed "s/version: v$LAB_K8S\$/version: v$version/" > "$WORK/day-two-$version.yaml"
  "$BUNDLE" build -f "$WORK/day-two-$version.yaml" --zone "$WORK/origins/run/zone.yaml" --catalogue "$WORK/origins/run/overlay.yaml" \
    --cache "$CACHE" -o "$WORK/day-two-$version.tar.zst" > "$WORK/day-two-build.log" 2>&1 || { tail -n 20 "$WORK/day-two-build.log" >&2; exit 1; }
done
fresh_two() {
  lab host down --all >&2
  lab host up "${DAY_TWO[@]}" >&2
  rm -rf "${WORK:?}/home" "$WORK/known_hosts"
}
# of VERB VERSION ARGS...: the installer, with the bundle of that version
of() {
  lab in-net env KUBEXM_HOME="$WORK/home" "$INSTALL" $1 --bundle "$WORK/day-two-$2.tar.zst" -f "$WORK/day-two-$2.yaml" --accept-new-host-keys \
    --known-hosts "$WORK/known_hosts" --json "${@:3}"
}
person() {
  lab in-net env HOSTS="$DAY_TWO_HOSTS" KEY="$LAB/id" FILES="$LAB/origin" REGISTRY=10.77.0.1:5000 WORK="$WORK" VERSION="$LAB_K8S_NEXT" \
    FLANNEL="$ROOT/tests/lab/kube-flannel.yaml" bash "$ROOT/tests/bench/$1.sh"
}
untimed() { "$@" > "$WORK/out.log" 2>&1 || { tail -n 40 "$WORK/out.log" >&2; return 1; }; }
export -f lab of person
export ROOT LAB WORK INSTALL DAY_TWO_HOSTS LAB_K8S_NEXT

in_lab registry_down
in_lab smoke_registry
for round in $(seq "$RUNS"); do
  fresh_two
  untimed person by-hand
  timed "$round" upgrade-by-hand bash -c "person upgrade-by-hand"
  fresh_two
  untimed of create "$LAB_K8S" -y
  warm "$WORK/day-two-$LAB_K8S_NEXT.tar.zst"
  timed "$round" upgrade bash -c "of upgrade $LAB_K8S_NEXT -y --always-drain"
  cp "$WORK/out.log" "$WORK/upgrade-$round.jsonl"
done

say "the same again, and the other commands of day two"
for round in $(seq "$RUNS"); do
  for verb in upgrade create add-node "certs renew"; do
    timed "$round" "no-op-${verb// /-}" bash -c "of '$verb' $LAB_K8S_NEXT -y"
    # A renewal without anything to renew has no steps.
    [ "$verb" = "certs renew" ] || python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/out.log" >&2
  done
  timed "$round" no-op-certs-check bash -c "of 'certs check' $LAB_K8S_NEXT"
  timed "$round" no-op-drift bash -c "of drift $LAB_K8S_NEXT"
  timed "$round" no-op-status bash -c "of status $LAB_K8S_NEXT"
done
