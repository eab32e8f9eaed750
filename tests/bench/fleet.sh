# shellcheck shell=bash
# Three hosts: two control planes and a worker. An install beside a shell script, a create that has nothing to do beside ansible
# looking at the same things, and what the second create sends over SSH.
FLEET=(b1 10.77.0.31 b2 10.77.0.32 b3 10.77.0.33)
FLEET_HOSTS="b1=10.77.0.31 b2=10.77.0.32 b3=10.77.0.33"
FLEET_ANSIBLE=$LAB/ansible

say "fleet"
lab net up
lab cluster-yaml --control-planes 2 "${FLEET[@]}" > "$WORK/fleet.yaml"
fresh_fleet() {
  lab host down --all >&2
  lab host up --python "${FLEET[@]}" >&2
  rm -rf "${WORK:?}/home" "$WORK/known_hosts"
}
fleet_create() {
  lab in-net env KUBEXM_HOME="$WORK/home" "$INSTALL" create --bundle "$FILE" -f "$WORK/fleet.yaml" -y --json --accept-new-host-keys \
    --known-hosts "$WORK/known_hosts"
}
fleet_by_hand() {
  lab in-net env HOSTS="$FLEET_HOSTS" CONTROL_PLANES=2 KEY="$LAB/id" FILES="$LAB/origin" REGISTRY=10.77.0.1:5000 WORK="$WORK" \
    FLANNEL="$ROOT/tests/lab/kube-flannel.yaml" bash "$ROOT/tests/bench/by-hand.sh"
}
ansible_looks() {
  lab in-net env ANSIBLE_CONFIG="$WORK/ansible/ansible.cfg" HOME="$WORK/ansible" "$FLEET_ANSIBLE/bin/ansible-playbook" -i "$WORK/ansible/hosts" \
    "$WORK/ansible/playbook.json"
}
export -f lab fleet_create fleet_by_hand ansible_looks
export ROOT LAB WORK FILE INSTALL FLEET_HOSTS FLEET_ANSIBLE

# ansible from PyPI, once
ansible_tools() {
  [ -x "$FLEET_ANSIBLE/bin/ansible-playbook" ] || { python3 -m venv "$FLEET_ANSIBLE" && "$FLEET_ANSIBLE/bin/pip" install -q ansible-core; } >&2
}
ansible_prepare() {
  local run
  run=$(find "$WORK/home/clusters/lab/runs" -mindepth 1 -maxdepth 1 -type d | sort | head -n 1)
  mkdir -p "$WORK/ansible"
  python3 "$ROOT/tests/bench/playbook.py" "$run/plan.json" "$WORK/ansible"
  for host in $FLEET_HOSTS; do echo "${host%%=*} ansible_host=${host#*=}"; done > "$WORK/ansible/hosts"
  cat > "$WORK/ansible/ansible.cfg" << CFG
[defaults]
remote_user = operator
private_key_file = $LAB/id
forks = 10
interpreter_python = /usr/bin/python3
stdout_callback = minimal
[ssh_connection]
pipelining = True
ssh_args = -o ControlMaster=auto -o ControlPersist=60s -o StrictHostKeyChecking=no -o UserKnownHostsFile=$WORK/ansible/known_hosts
CFG
}

# Bytes of SSH between the controller and each host, both ways, by the kernel's counters in the controller's namespace.
ssh_counters() {
  local host
  {
    printf 'table inet kubexm_bench\ndelete table inet kubexm_bench\ntable inet kubexm_bench {\n'
    for host in $FLEET_HOSTS; do printf '  counter %s {}\n' "${host%%=*}"; done
    printf '  chain out { type filter hook output priority 0;\n'
    for host in $FLEET_HOSTS; do printf '    ip daddr %s tcp dport 22 counter name %s\n' "${host#*=}" "${host%%=*}"; done
    printf '  }\n  chain in { type filter hook input priority 0;\n'
    for host in $FLEET_HOSTS; do printf '    ip saddr %s tcp sport 22 counter name %s\n' "${host#*=}" "${host%%=*}"; done
    printf '  }\n}\n'
  } | lab in-net nft -f -
}
ssh_bytes() {
  lab in-net nft -j list counters table inet kubexm_bench | python3 -c '
import json, sys
for item in json.load(sys.stdin)["nftables"]:
    if "counter" in item: print(item["counter"]["name"], item["counter"]["bytes"], sep="\t")'
}

ansible_tools
in_lab registry_down
in_lab smoke_registry
for round in $(seq "$RUNS"); do
  warm "$FILE"
  fresh_fleet
  timed "$round" fleet-by-hand bash -c fleet_by_hand
  fresh_fleet
  timed "$round" fleet-create bash -c fleet_create
  cp "$WORK/out.log" "$WORK/fleet-create-$round.jsonl"
done

say "the same again, and ansible"
ansible_prepare
for round in $(seq "$RUNS"); do
  ssh_counters
  timed "$round" fleet-again bash -c fleet_create
  ssh_bytes > "$WORK/ssh-bytes-$round.tsv"
  cp "$WORK/out.log" "$WORK/fleet-again-$round.jsonl"
  timed "$round" ansible bash -c ansible_looks
done
