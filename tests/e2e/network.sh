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
# networkd_again HOST: the host's systemd-networkd starts again, and every route and rule of routing is still there (a link of pods may have lost its
# last pod meanwhile)
networkd_again() {
  local before after
  before=$(routes_of "$1") || return 1
  lab host root "$1" "systemctl restart systemd-networkd && sleep 2 && systemctl is-active systemd-networkd" || return 1
  after=$(routes_of "$1") || return 1
  diff <(echo "$before") <(echo "$after")
}
routes_of() { lab host root "$1" "for family in -4 -6; do ip \$family rule; ip \$family route show table main | sed 's/ linkdown//'; done"; }
# wants_all HOST: a file of the operator's has systemd-networkd ask for addresses on every link
wants_all() { lab host root "$1" "printf '[Match]\\nName=cni* flannel* veth*\\n\\n[Network]\\nDHCP=ipv4\\n' > /etc/systemd/network/90-theirs.network"; }
is_unmanaged() { lab host root "$1" "networkctl status $2 | grep -w unmanaged"; }
nodes_ready() { [ "$(kubectl_on n1 get nodes --no-headers | grep -c ' Ready ')" = "$1" ]; }
nothing_to_do() {
  install_of "$1" create --json > "$WORK/again.jsonl" || { tail -n 3 "$WORK/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again.jsonl"
}
