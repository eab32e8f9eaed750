# shellcheck shell=bash
# tier: always
# seconds: 40
# needs: lab
# One way between two hosts is closed, in one direction only: preflight finds it before anything is changed.
. "$ROOT/tests/e2e/fleet.sh"
say "a firewall between two hosts"
HOME_NAME=home-mesh
# shellcheck disable=SC2034  # fleet.sh reads it
FLEET=(m1 m2)
lab cluster-yaml m1 10.77.0.31 m2 10.77.0.32 > "$WORK/mesh.yaml"
lab host up m1 10.77.0.31 m2 10.77.0.32
mesh() { install "$1" --bundle "$FILE" -f "$WORK/mesh.yaml" --accept-new-host-keys "${@:2}"; }
one_pair_blocked() {
  local said rc=0
  said=$(says 53 "blocked between hosts (1):" mesh preflight) || rc=1
  printf '%s\n' "$said"
  grep -qE '^ *m1 +m2 +10\.77\.0\.32 +10250/tcp +no answer' <<< "$said" && grep -qF 'from 10.77.0.31 to 10.77.0.32 port 10250/tcp: no answer' <<< "$said" && [ "$rc" = 0 ]
}

check "open ways between two hosts are no finding" mesh preflight
# the control plane no longer reaches kubelet of the worker; all else, and the rollback, stays open
lab host root m2 'nft -f -' << 'NFT'
table inet site {
  chain in { type filter hook input priority 0; ip saddr 10.77.0.31 tcp dport 10250 drop; }
}
NFT
states before
check "a way that is closed in one direction is refused: a table of the one pair, and the text of a firewall ticket" one_pair_blocked
check "create stops there with the same code" says 53 "10.77.0.32 port 10250/tcp" mesh create -y
check "before anything on a host is changed, our agent included" as_before
# only other hosts may come in: what the host's own pods send is dropped
lab host root m2 'nft delete table inet site'
lab host root m1 'nft -f -' << 'NFT'
table inet site {
  chain in { type filter hook input priority 0; policy drop; iif lo accept; ct state established accept; ip saddr 10.77.0.0/24 accept; }
}
NFT
states before
check "a firewall that drops what a host's own pods send is refused" says 53 "port 6443/tcp: no answer" mesh preflight
check "with the network to accept" says 53 "accept connections from" mesh preflight
check "and nothing of that check stays on the host" as_before
lab host down --all
HOME_NAME=home
