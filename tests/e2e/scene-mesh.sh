# shellcheck shell=bash
# One way between two hosts is closed, in one direction only: preflight finds it before anything is changed.
. "$ROOT/tests/e2e/fleet.sh"
say "a firewall between two hosts"
HOME_NAME=home-mesh
# shellcheck disable=SC2034  # fleet.sh reads it
FLEET=(m1 m2)
lab cluster-yaml m1 10.77.0.31 m2 10.77.0.32 > "$WORK/mesh.yaml"
lab host up m1 10.77.0.31 m2 10.77.0.32
mesh() { install "$1" --bundle "$FILE" -f "$WORK/mesh.yaml" --accept-new-host-keys "${@:2}"; }

only_pair() {
  local said; said=$(mesh preflight 2>&1 || true)
  [ "$(grep -cF 'from 10.77.0.3' <<< "$said")" = 1 ] || { printf '%s\n' "$said"; return 1; }
}

check "open ways between two hosts are no finding" mesh preflight
# the control plane no longer reaches kubelet of the worker; all else, and the way back, stays open
lab host root m2 'nft -f -' << 'NFT'
table inet site {
  chain in { type filter hook input priority 0; ip saddr 10.77.0.31 tcp dport 10250 drop; }
}
NFT
states before
check "a port that is closed in one direction is told as a firewall ticket wants it" \
  says 53 "from 10.77.0.31 to 10.77.0.32 port 10250/tcp: no answer" mesh preflight
check "it is the only pair that is told" only_pair
check "create stops there with the same code" says 53 "10.77.0.32 port 10250/tcp" mesh create -y
check "before anything on a host is changed, our agent included" as_before
lab host down --all
HOME_NAME=home
