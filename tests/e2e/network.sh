# shellcheck shell=bash
# Clusters of which each has a file and a bundle of its own: $WORK/NAME.yaml, $WORK/NAME.tar.zst.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/across.sh"

bundle_of() {
  "$BUNDLE" build -f "$WORK/$1.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/$1.tar.zst"
}
# install_of NAME VERB ARGS...: the installer, with that file and that bundle
install_of() {
  install "$2" --bundle "$WORK/$1.tar.zst" -f "$WORK/$1.yaml" --allow-unsigned --accept-new-host-keys -y "${@:3}"
}
nodes_ready() { [ "$(kubectl_on n1 get nodes --no-headers | grep -c ' Ready ')" = "$1" ]; }
nothing_to_do() {
  install_of "$1" create --json > "$WORK/again.jsonl" || { tail -n 3 "$WORK/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again.jsonl"
}
