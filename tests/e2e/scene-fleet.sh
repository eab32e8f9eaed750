# shellcheck shell=bash
# tier: always
# seconds: 330
# needs: lab packages
# makes: fleet
# Two control planes and a worker, as `operator`, whose sudo wants a password.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/across.sh"
say "a fleet: two control planes and a worker"
HOME_NAME=home-fleet
fleet_up
check "a bundle carries what its hosts lack" fleet_bundle
[ "$HELD" = 1 ] || return 0
sed "s,$SUDO_PASSWORD,$WORK/wrong-password," "$FLEET_YAML" > "$WORK/wrong-password.yaml"
echo "not it" > "$WORK/wrong-password"
check "a sudo password that is wrong is named, and no host is touched" \
  says 52 "sudo" fleet create -f "$WORK/wrong-password.yaml" -y --accept-new-host-keys
check "three hosts become a cluster" fleet_create
[ "$HELD" = 1 ] || return 0
fleet_created
check "every node of the fleet is Ready" fleet_becomes_ready 60
check "every pod of the fleet runs" within 90 all_running n1
check "two hosts were worked on at the same time" journal overlap
check "control planes were made one at a time" journal one-at-a-time
journal seconds || true
check "every static pod of the fleet is known" fleet_objects fleet
fleet_trees fleet
reached fleet "$WORK/objects-fleet" "$WORK"/tree-fleet-*
packages_there() { lab host root "$1" dpkg-query -W socat conntrack ethtool; }
check "what each host lacked came as packages" on_fleet packages_there
follow_first() {
  local host said
  for host in n2 n3; do
    said=$(lab host root "$host" chronyc -n -c sources); echo "$host: $said"
    [[ $said == '^,*,10.77.0.11,'* ]] || return 1
  done
}
check "the other hosts follow the clock of the first, and of nobody else" within 120 follow_first
fleet_status() {
  local id facts="$WORK/facts-fleet.json"
  # With a home of its own, which knows the hosts' keys and nothing else.
  mkdir -p "$WORK/home-elsewhere" && cp "$WORK/home-fleet/known_hosts" "$WORK/home-elsewhere/" || return 1
  HOME_NAME=home-elsewhere fleet status -f "$FLEET_YAML" --json > "$facts" || return 1
  id=$(lab host root n1 cat /var/lib/kubexm/stamp.json | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])') || return 1
  python3 - "$facts" "$id" << 'PY'
import json, sys
facts, id = json.load(open(sys.argv[1]))["clusters"][0]["facts"], sys.argv[2]
print(json.dumps({key: facts[key] for key in ("id", "serverVersion", "network", "gaps")}))
hosts = {one["host"] for one in facts["certificates"]}
wanted = [
    facts["id"] == id == facts["applied"]["id"], facts["gaps"] == [], len(facts["nodes"]) == 3, all(node["ready"] for node in facts["nodes"]),
    len(facts["etcd"]) == 2, all(one["healthy"] and one["version"].startswith("3.") for one in facts["etcd"]), len(hosts) == 3,
    len(facts["components"]) == 8, all(one["ready"] for one in facts["components"]), facts["network"] == "flannel",
    "sudoPasswordFrom" not in json.dumps(facts), all(one["ends"] > 1600000000 for one in facts["certificates"]),
]
sys.exit(0 if all(wanted) else f"not as it should be: {wanted}")
PY
}
check "pods reach pods of other hosts, and a service by its name" across_hosts
check "the comparison of hosts sees a cluster, in every kind" sees_a_cluster
check "status shows the cluster that runs, from a machine that never made one" fleet_status
check "a second create changes nothing on any host" fleet_changes_nothing
check "drift finds nothing" says 0 "Nothing has drifted" fleet drift -f "$FLEET_YAML"
drift_of_an_edit() {
  local file=/etc/sysctl.d/99-kubexm-cri.conf code=0
  lab host root n3 "cp -a $file /root/kept && echo net.ipv4.ip_forward=0 >> $file" || return 1
  says 58 "$file" fleet drift -f "$FLEET_YAML" || code=1
  lab host root n3 mv /root/kept "$file" && return "$code"
}
check "drift shows a file that somebody has edited" drift_of_an_edit
sed 's/{name: n3,/{name: n3, labels: {zone: a},/' "$FLEET_YAML" > "$WORK/labels.yaml"
check "and a field of cluster.yaml that was not applied" says 58 "spec.hosts[2].labels" fleet drift -f "$WORK/labels.yaml"
check "the sudo password is nowhere on the controller or a host" no_password
stopped_and_kept() { lab host stop --all && keep_cluster fleet; }
check "all hosts are powered off at once, and their disks kept" stopped_and_kept
REBOOTED=$(date -u +%FT%TZ)
check "all hosts boot at once" lab host up "${FLEET_ADDRESSES[@]}"
check "the fleet is Ready again, untouched" fleet_becomes_ready
check "every pod runs again" within 180 all_running_since n1 "$REBOOTED"
check "a create after the reboot changes nothing on any host" fleet_changes_nothing
lab host down --all
HOME_NAME=home
