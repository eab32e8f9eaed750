# shellcheck shell=bash
# Seeding an empty registry on loopback with the lab's bundle, beside skopeo: copy of each image one after another, and sync. A second
# seed, requests counted; seeds that are stopped and killed 20 times. Figures that are no times go to fetch.tsv: what, value, bound.
SITE=$WORK/seed
mkdir -p "$SITE/layout" "$SITE/dirs"
figure() { printf '%s\t%s\t%s\n' "$@" >> "$WORK/fetch.tsv"; }
STARTED=()
leave() {
  local code=$? pid
  for pid in "${STARTED[@]}"; do kill "$pid" 2> /dev/null || true; done
  exit "$code"
}
trap leave EXIT

# fresh: an empty registry; sets REGISTRY
fresh() {
  local pid
  for pid in "${STARTED[@]}"; do kill "$pid" 2> /dev/null || true; wait "$pid" 2> /dev/null || true; done
  STARTED=()
  rm -rf "${SITE:?}/registry" "${SITE:?}/home"
  printf 'version: 0.1\nlog: {level: info}\nstorage:\n  filesystem: {rootdirectory: %s}\nhttp: {addr: 127.0.0.1:0, secret: bench}\n' \
    "$SITE/registry" > "$SITE/registry.yml"
  # The last one's says where that listened.
  rm -f "$SITE/registry.log"
  docker-registry serve "$SITE/registry.yml" > "$SITE/access.log" 2> "$SITE/registry.log" &
  STARTED+=($!)
  until REGISTRY=$(grep -os 'listening on [0-9.:]*' "$SITE/registry.log"); do sleep 0.05; done
  REGISTRY=${REGISTRY#listening on }
  export REGISTRY
  sync
}

tar --zstd -xf "$FILE" -C "$SITE/layout"
python3 - "$SITE/layout" > "$SITE/images" << 'END'
import json
import sys

layout = sys.argv[1]
index = json.load(open(f"{layout}/index.json"))
images = [entry for entry in index["manifests"] if "artifactType" not in entry]
names = {entry.get("annotations", {}).get("org.opencontainers.image.ref.name", "") for entry in images}
print("\n".join(sorted(name for name in names if name and ":sha256-" not in name)))
END
while read -r name; do
  mkdir -p "$SITE/dirs/${name%/*}"
  skopeo copy -q --insecure-policy "oci:$SITE/layout:$name" "dir:$SITE/dirs/$name"
done < "$SITE/images"
figure "images" "$(wc -l < "$SITE/images")" ""
find "$SITE" -type f -exec cat {} + > /dev/null

ours() { KUBEXM_HOME=$SITE/home "$INSTALL" seed --bundle "$FILE" --to "${TO:-$REGISTRY}" --plain-http --only images; }
each() {
  local name
  while read -r name; do
    skopeo copy -q --insecure-policy --dest-tls-verify=false "oci:$SITE/layout:$name" "docker://$REGISTRY/$name"
  done < "$SITE/images"
}
all() { skopeo sync --src dir --dest docker --dest-tls-verify=false --scoped=false "$SITE/dirs" "$REGISTRY"; }
export -f ours each all
export SITE INSTALL FILE

for round in $(seq "$RUNS"); do
  fresh
  timed "$round" seed bash -c ours
  before=$(wc -l < "$SITE/access.log")
  timed "$round" seed-again bash -c ours
  if [ "$round" = 1 ]; then
    sleep 1
    figure "requests of a seed" "$before" ""
    figure "requests of a second seed" "$(($(wc -l < "$SITE/access.log") - before))" ""
  fi
  fresh
  timed "$round" seed-skopeo-copy bash -c each
  fresh
  timed "$round" seed-skopeo-sync bash -c all
done

# ended SIGNAL: bytes that a seed sends that is ended 20 times, beside one that is not
ended() {
  local child killed=0 tries=0 whole sent
  fresh
  count
  whole=$(cat "$SITE/sent")
  fresh
  start_counting
  while [ "$killed" -lt 20 ] && [ "$tries" -lt 200 ]; do
    tries=$((tries + 1))
    TO=127.0.0.1:$PORT ours > /dev/null 2>&1 &
    child=$!
    sleep "0.$((RANDOM % 300 + 200))"
    # The program itself, not the shell around it.
    if pkill "-$1" -P "$child" -x kubexm-install 2> /dev/null; then killed=$((killed + 1)); fi
    wait "$child" 2> /dev/null || true
  done
  TO=127.0.0.1:$PORT ours > /dev/null 2>&1
  sent=$(cat "$SITE/sent")
  figure "times ended by $1" "$killed" 20
  figure "bytes sent twice, of all, ended by $1 (%)" "$(awk -v s="$sent" -v w="$whole" 'BEGIN { printf "%.2f", 100 * (s - w) / w }')" "$2"
}
start_counting() {
  rm -f "$SITE/port" "$SITE/sent"
  python3 "$ROOT/tests/bench/counting.py" "$SITE/port" "$SITE/sent" "$REGISTRY" "$RATE" &
  STARTED+=($!)
  until [ -s "$SITE/port" ]; do sleep 0.05; done
  PORT=$(cat "$SITE/port")
}
count() {
  start_counting
  TO=127.0.0.1:$PORT ours > /dev/null
}
RATE=20000000
ended TERM 3
ended KILL 3
