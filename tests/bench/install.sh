# shellcheck shell=bash
# A cluster of one host, from the bundle and by hand, turn by turn on fresh hosts; then the same again where all holds already.
say "install"
lab net up
fresh_host() {
  lab host down --all >&2
  lab host up "$HOST" "$ADDRESS" >&2
  rm -rf "${WORK:?}/home" "$WORK/known_hosts"
}
create() {
  lab in-net env KUBEXM_HOME="$WORK/home" "$INSTALL" create --bundle "$FILE" --allow-unsigned -y --json --accept-new-host-keys --known-hosts "$WORK/known_hosts"
}
by_hand() {
  lab in-net env HOSTS="$HOST=$ADDRESS" KEY="$LAB/id" FILES="$LAB/origin" REGISTRY=10.77.0.1:5000 WORK="$WORK" \
    FLANNEL="$ROOT/tests/lab/kube-flannel.yaml" bash "$ROOT/tests/bench/by-hand.sh"
}
export -f lab create by_hand
export ROOT HOST ADDRESS LAB WORK FILE INSTALL

in_lab registry_down
in_lab smoke_registry
for round in $(seq "$RUNS"); do
  warm "$FILE"
  fresh_host
  timed "$round" by-hand bash -c by_hand
  fresh_host
  timed "$round" create bash -c create
  cp "$WORK/out.log" "$WORK/create-$round.jsonl"
done

say "the same again"
for round in $(seq "$RUNS"); do
  timed "$round" create-again bash -c create
  cp "$WORK/out.log" "$WORK/again-$round.jsonl"
done
# shellcheck disable=SC2016  # for the host's shell
lab host root "$HOST" 'sed -n "s/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p" "/proc/$(systemctl show -p MainPID --value kubexm-depot)/status"' > "$WORK/depot.kb"
python3 "$ROOT/tests/bench/disk.py" "$LAB/run/$LAB_NET/hosts/$HOST/root" > "$WORK/disk.tsv"
