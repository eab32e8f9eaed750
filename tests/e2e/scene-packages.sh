# shellcheck shell=bash
# tier: long
# seconds: 300
# needs: lab packages
# Hosts that lack what kubelet calls (`--bare`): the bundle brings it, as packages of the distribution, and rolls it back. What a host
# has of its own is looked at first: newer, older, of a family that must be one version, in conflict.
. "$ROOT/tests/e2e/fleet.sh"
say "packages of the distribution"
HOME_NAME=home-packages
PACKAGES_YAML=$WORK/packages.yaml
PACKAGES=$WORK/packages.tar.zst
# packages_yaml HOST ADDRESS: a cluster of one host, whose distribution's packages are in the bundle
packages_yaml() { lab cluster-yaml "$@" | with_packages "debs: [ipset], ntpServers: [$1]"; }
packages_yaml n1 10.77.0.11 > "$PACKAGES_YAML"

check "a bundle carries the packages of a distribution" \
  "$BUNDLE" build -f "$PACKAGES_YAML" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$PACKAGES"
[ "$HELD" = 1 ] || return 0
check "what it was asked for is in it, by the distribution's signature" bash -c "'$BUNDLE' inspect --json '$PACKAGES' | python3 -c '
import json, sys
trust = {a[\"key\"]: a[\"trust\"] for a in json.load(sys.stdin)[\"artifacts\"]}
for name in \"socat\", \"conntrack\", \"ebtables\", \"ethtool\", \"ipset\", \"libc6\":
    assert trust[\"package/debian-12/\" + name] == \"gpg\", name'"

# fake HOST NAME VERSION FIELD...: a package that only says something, installed
fake() {
  local host=$1 name=$2 version=$3 field fields=''
  shift 3
  for field in "$@"; do fields+="$field"$'\n'; done
  lab host root "$host" sh -eu -s << SH
    at=/run/fake/$name; mkdir -p "\$at/DEBIAN"
    cat > "\$at/DEBIAN/control" << 'CONTROL'
Package: $name
Version: $version
Architecture: amd64
Maintainer: lab <lab@example.org>
${fields}Description: says something
CONTROL
    dpkg-deb --root-owner-group --build "\$at" "/run/fake/$name.deb" > /dev/null
    dpkg -i "/run/fake/$name.deb"
SH
}
packages_of() { lab host root "$1" "dpkg-query -W -f '\${Package} \${Version} \${db:Status-Abbrev}\n'"; }
# on HOST VERB ARGS...: the installer, for a cluster of this host alone
on() { install "$2" --bundle "$PACKAGES" -f "$WORK/packages-$1.yaml" "${@:3}" --accept-new-host-keys; }
first_run() { find "$WORK/$HOME_NAME/clusters/lab/runs" -mindepth 1 -maxdepth 1 -type d | sort | head -n 1; }
packages_as() { packages_of "$1" | diff -u "$WORK/$2" -; }

# What a scene before this one left, when a check of it failed, is no host of ours.
lab host down --all
# n1 becomes a cluster; its libipset13 is newer than the bundle's. n2 has what does not bear ours. n3 has what must be upgraded.
lab host up n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13 --bare
for host in n1 n2 n3; do packages_yaml "$host" "10.77.0.1${host#n}" > "$WORK/packages-$host.yaml"; done

lab host root n2 dpkg --purge iptables > /dev/null
{ fake n2 libxtables12 99-1; fake n2 no-socat 1 "Conflicts: socat"; } > /dev/null
packages_of n2 > "$WORK/packages-n2"
HOME_NAME=home-packages-n2
check "of a family that must be one version, a newer one on the host is named before anything is changed" \
  says 53 "iptables cannot be installed" on n2 create -y
check "so is a package that does not bear one of ours" says 53 "no-socat" on n2 create -y
check "nothing was changed for that" packages_as n2 packages-n2

fake n3 libipset13 7.1-1 > /dev/null
HOME_NAME=home-packages-n3
check "what would be upgraded is said before, and that there is no rollback" says 0 "an upgrade cannot be rolled back" on n3 preflight
check "a run that upgraded is rolled back but for that, and says so" \
  says 71 "cannot be rolled back: libipset13 7.1-1 is upgraded to 7.17-1" on n3 create -y --on-failure rollback --drill fail:n3/packages.install
upgraded() { lab host root n3 "dpkg-query -W -f '\${Version}' libipset13" | grep -x 7.17-1; }
check "the older one is upgraded" upgraded

say "a cluster where everything is lacking"
HOME_NAME=home-packages-n1
fake n1 libipset13 99-1 > /dev/null
timesyncd=$(find "$LAB/packages" -name 'systemd-timesyncd_*_amd64.deb' | head -n 1)
lab host root n1 'cat > /run/timesyncd.deb && dpkg -i /run/timesyncd.deb' < "$timesyncd" > /dev/null
lab watch start n1
packages_of n1 > "$WORK/packages-before"
one_state packages-before n1
# ebtables is iptables' own on Debian 12: nothing is lacking there.
lacks() { [ "$(lab host root n1 "for name in sh conntrack socat ipset ethtool chronyd; do command -v \$name; done; true" | wc -l)" = 1 ]; }
check "the host lacks them (control)" lacks
# The agent dies in the middle of apt, which continues in a unit of its own: who comes next waits for it.
killed_in_apt() {
  local job rc=0
  lab host root n1 "for try in \$(seq 1200); do ! pgrep -f '[-]-status-fd' > /dev/null || { pkill -9 -x kubexm-install; exit; }; sleep 0.1; done; exit 1" & job=$!
  on n1 create -y || rc=$?
  wait "$job" || { echo "apt was not seen at work"; rc=1; }
  return "$rc"
}
check "a cluster comes up where everything was lacking, though the agent was killed in the middle of apt" killed_in_apt
[ "$HELD" = 1 ] || return 0
begun_once() { [ "$(lab host root n1 "grep -c '^Commandline: .*apt-get' /var/log/apt/history.log")" = 1 ]; }
check "apt was begun once" begun_once
check "the node is Ready (packages)" ready n1
check "every pod runs (packages)" all_running n1
has_them() {
  local name
  for name in conntrack socat ipset ethtool chrony bash-completion; do
    lab host root n1 "dpkg-query -W -f '\${Package} \${Version} \${db:Status-Abbrev}\n' $name" || return 1
  done
}
check "what was lacking is installed, as packages" has_them
check "what was newer has stayed" bash -c "'$ROOT/scripts/lab' host root n1 \"dpkg-query -W -f '\\\${Version}' libipset13\" | grep -x 99-1"
chrony_instead() {
  local kept active
  # What was removed and not purged is listed still. dpkg itself is there: a question that nobody answered proves nothing.
  kept=$(lab host root n1 "dpkg-query -W -f '\${Package} \${db:Status-Abbrev}\n' dpkg chrony; dpkg-query -W -f '\${db:Status-Abbrev}' systemd-timesyncd; true")
  active=$(lab host root n1 systemctl is-active dbus chrony systemd-timesyncd || true)
  printf '%s\n' "$kept" "$active"
  [[ $kept == *"dpkg ii"* && $kept == *"chrony ii"* ]] && ! grep -q ^ii <<< "$kept" && [ "$(grep -cx active <<< "$active")" = 2 ]
}
check "chrony has taken the place of timesyncd" chrony_instead
no_pool() { lab host root n1 "cat /etc/chrony/chrony.conf && ! grep -rE '^(pool|server|sourcedir|include|confdir)' /etc/chrony/chrony.conf"; }
check "and asks nobody" no_pool
check "dpkg finds nothing wrong" bash -c "[ -z \"\$('$ROOT/scripts/lab' host root n1 dpkg --audit)\" ]"
check "no packet and no name left for the outside (packages)" no_way_out
second_with_packages() {
  tree n1 > "$WORK/tree-before"
  on n1 create -y --json > "$WORK/second.jsonl"
  tree n1 > "$WORK/tree-after"
  same "$WORK/tree-before" "$WORK/tree-after"
}
check "a second create changes nothing (packages)" second_with_packages
check "the run is rolled back" on n1 rollback "$(basename "$(first_run)")" -y
check "dpkg lists what it listed before" packages_as n1 packages-before
all_as_before() { one_state packages-now n1; same_state packages-before-n1 packages-now-n1; }
check "the host is as before (packages)" all_as_before
lab host down --all
HOME_NAME=home
