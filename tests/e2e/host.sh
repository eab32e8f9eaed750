# shellcheck shell=bash
# What a freshly installed host is held to.

ready() { kubectl_on "$1" get nodes | grep -q ' Ready '; }

# within SECONDS CMD...: polled until it holds
within() {
  local deadline=$((SECONDS + $1)); shift
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 1
  done
}

becomes_ready() { within 120 ready "$1"; }

depot_back() { within 60 lab host root "$1" systemctl is-active --quiet kubexm-depot.service; }

all_running() {
  local pods; pods=$(kubectl_on "$1" get pods -A --no-headers)
  echo "$pods"
  ! echo "$pods" | grep -vE ' Running '
}

# all_running_since HOST TIME: every container was started after TIME. After a reboot the API tells what was true before it until
# each kubelet has spoken again.
all_running_since() {
  all_running "$1" > /dev/null || return 1
  kubectl_on "$1" get pods -A -o json > "$WORK/pods.json" || return 1
  python3 - "$2" "$WORK/pods.json" << 'PY'
import json, sys
since = sys.argv[1]
for pod in json.load(open(sys.argv[2]))["items"]:
    for container in pod["status"]["containerStatuses"]:
        started = container["state"].get("running", {}).get("startedAt", "")
        if started < since or not container["ready"]:
            sys.exit(f"{pod['metadata']['name']}: {container['name']} runs since {started or 'never'}, not since {since}")
PY
}

no_way_out() {
  lab watch report > "$WORK/watch.json"
  python3 - "$WORK/watch.json" << 'PY'
import json, sys
report = json.load(open(sys.argv[1]))
print(report)
assert report["packets"] == 0, "packets left for the outside"
assert report["dns"] == [], "names of the outside were asked"
assert report["missing"] == [], "a host was not watched"
PY
}

# The second run: nothing changes, neither the journal's steps nor the host's files.
changes_nothing() {
  tree n1 > "$WORK/tree-before"
  install --bundle "$FILE" --allow-unsigned -y --json > "$WORK/second.jsonl"
  tree n1 > "$WORK/tree-after"
  python3 - "$WORK/second.jsonl" << 'PY'
import json, sys
ends = [e for e in map(json.loads, open(sys.argv[1])) if e["type"] == "step-ended"]
other = [(e["step"], e["outcome"]) for e in ends if e["outcome"] != "satisfied"]
assert ends and not other, other
PY
  same "$WORK/tree-before" "$WORK/tree-after"
}
