# shellcheck shell=bash
# Fetching alone: 40 images that share layers beside skopeo, 200 small files beside curl, a fetch that is killed 50 times, a lock
# with a warm cache. Everything comes from this machine; figures that are no times go to fetch.tsv: what, value, bound.
ORIGIN=$ROOT/tests/bench/origin.py
FETCH=${KUBEXM_FETCH:-}
if [ -z "$FETCH" ]; then
  (cd "$ROOT" && cargo build --quiet --release -p kubexm-builder --example fetch)
  FETCH=${CARGO_TARGET_DIR:-$ROOT/target}/release/examples/fetch
fi
IMAGES=40
IMAGE_BYTES=2000000000
SMALL=200
SITE=$WORK/fetch
mkdir -p "$SITE"
figure() { printf '%s\t%s\t%s\n' "$@" >> "$WORK/fetch.tsv"; }
STARTED=()
leave() {
  local code=$? pid
  for pid in "${STARTED[@]}"; do kill "$pid" 2> /dev/null || true; done
  exit "$code"
}
trap leave EXIT

# cluster KIND LINES > cluster.yaml of extras only
cluster() { printf 'apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: bench}\nspec:\n  bundle:\n    platforms: [linux/amd64]\n    %s:\n%s\n' "$1" "$2"; }

# serve FOLDER LOG MS RATE: sets PORT
serve() {
  python3 "$ORIGIN" serve "$@" > "$SITE/port" &
  STARTED+=($!)
  until [ -s "$SITE/port" ]; do sleep 0.05; done
  PORT=$(cat "$SITE/port")
  : > "$SITE/port"
}

# list_files FOLDER PORT: entries of extraFiles
list_files() {
  local path
  for path in "$1"/*.bin; do
    printf '    - {url: "http://127.0.0.1:%s/%s", sha256: "%s"}\n' "$2" "${path##*/}" "$(sha256sum "$path" | cut -d ' ' -f 1)"
  done
}

say "$IMAGES images, $IMAGE_BYTES bytes"
python3 "$ORIGIN" images "$SITE/registry" "$IMAGES" "$IMAGE_BYTES"
cat > "$SITE/registry.yml" << END
version: 0.1
log: {level: info}
storage:
  filesystem: {rootdirectory: $SITE/registry}
http: {addr: 127.0.0.1:0, secret: bench}
END
docker-registry serve "$SITE/registry.yml" > "$SITE/access.log" 2> "$SITE/registry.log" &
STARTED+=($!)
until REGISTRY=$(grep -o 'listening on [0-9.:]*' "$SITE/registry.log"); do sleep 0.1; done
REGISTRY=${REGISTRY#listening on }
printf 'name: bench\nrules:\n- {match: bench.test, to: ["%s"], plainHttp: true, only: true}\n' "$REGISTRY" > "$SITE/zone.yaml"
lines=$(for number in $(seq -f %02g 0 $((IMAGES - 1))); do echo "    - {name: \"bench.test/bench/app-$number:v1\"}"; done)
cluster extraImages "$lines" > "$SITE/images.yaml"

ours_images() { "$FETCH" fetch "$SITE/images.yaml" "$SITE/zone.yaml" "$SITE/cache"; }
ours_lock() { "$FETCH" lock "$SITE/images.yaml" "$SITE/zone.yaml" "$SITE/cache"; }
theirs_images() {
  local number
  for number in $(seq -f %02g 0 $((IMAGES - 1))); do
    skopeo copy -q --insecure-policy --src-tls-verify=false "docker://$REGISTRY/bench/app-$number:v1" "oci:$SITE/skopeo:app-$number"
  done
}
export -f ours_images ours_lock theirs_images
export FETCH SITE REGISTRY IMAGES
find "$SITE/registry" -name data -exec cat {} + > /dev/null
for round in $(seq "$RUNS"); do
  rm -rf "$SITE/cache" "$SITE/skopeo"
  sync
  before=$(wc -l < "$SITE/access.log")
  timed "$round" fetch-images bash -c ours_images
  if [ "$round" = 1 ]; then
    sleep 1
    tail -n "+$((before + 1))" "$SITE/access.log" | grep -o 'GET /v2/[^ ]*/blobs/sha256:[0-9a-f]*' | sed 's/.*sha256://' | sort | uniq -c > "$SITE/asked"
    figure "blobs in all" "$(find "$SITE/cache/blobs/sha256" -type f | wc -l)" ""
    figure "blobs that were asked for" "$(wc -l < "$SITE/asked")" ""
    figure "blobs that were asked for more than once" "$(awk '$1 > 1' "$SITE/asked" | wc -l)" 0
  fi
  timed "$round" fetch-lock-warm bash -c ours_lock
  sync
  timed "$round" skopeo bash -c theirs_images
done
(cd "$SITE/cache/blobs/sha256" && for name in *; do echo "$name  $name"; done | sha256sum -c --quiet) && figure "blobs that are whole" yes yes
rm -rf "$SITE/skopeo"
timed 1 fetch-build-warm "$BUNDLE" build -f "$SITE/images.yaml" --zone "$SITE/zone.yaml" --cache "$SITE/cache" -o "$SITE/out.tar.zst"
rm -rf "$SITE/out.tar.zst" "$SITE/cache"
timed 1 fetch-build-cold "$BUNDLE" build -f "$SITE/images.yaml" --zone "$SITE/zone.yaml" --cache "$SITE/cache" -o "$SITE/out.tar.zst"
rm -rf "$SITE/out.tar.zst" "$SITE/cache" "$SITE/registry"

say "$SMALL small files at 20 ms"
python3 "$ORIGIN" files "$SITE/small" "$SMALL" 6000000 2
serve "$SITE/small" "$SITE/small.log" 20 0
cluster extraFiles "$(list_files "$SITE/small" "$PORT")" > "$SITE/small.yaml"
ours_small() { "$FETCH" fetch "$SITE/small.yaml" "$SITE/zone.yaml" "$SITE/cache"; }
theirs_small() { local path; for path in "$SITE"/small/*.bin; do curl -sf -o "$SITE/curl/${path##*/}" "http://127.0.0.1:$PORT/${path##*/}"; done; }
one_curl() { curl -sf --remote-name-all --output-dir "$SITE/curl" $(cd "$SITE/small" && printf "http://127.0.0.1:$PORT/%s " *.bin); }
export -f ours_small theirs_small one_curl
export PORT
for round in $(seq "$RUNS"); do
  rm -rf "$SITE/cache" "$SITE/curl" && mkdir "$SITE/curl"
  sync
  timed "$round" fetch-small bash -c ours_small
  sync
  timed "$round" curl-each bash -c theirs_small
  timed "$round" curl-one bash -c one_curl
done

say "killed 50 times"
python3 "$ORIGIN" files "$SITE/large" 60 600000000 3
serve "$SITE/large" "$SITE/large.log" 2 40000000
cluster extraFiles "$(list_files "$SITE/large" "$PORT")" > "$SITE/large.yaml"
rm -rf "$SITE/cache"
killed=0
for number in $(seq 50); do
  "$FETCH" fetch "$SITE/large.yaml" "$SITE/zone.yaml" "$SITE/cache" 2> /dev/null &
  child=$!
  sleep "0.$((RANDOM % 350 + 100))"
  if kill -9 "$child" 2> /dev/null; then killed=$((killed + 1)); fi
  wait "$child" 2> /dev/null || true
done
"$FETCH" fetch "$SITE/large.yaml" "$SITE/zone.yaml" "$SITE/cache" 2> /dev/null
sleep 1
wanted=$(cat "$SITE"/large/*.bin | wc -c)
sent=$(awk '{ sent += $3 } END { printf "%.0f", sent }' "$SITE/large.log")
figure "times killed" "$killed" 50
figure "bytes fetched twice, of all (%)" "$(awk -v s="$sent" -v w="$wanted" 'BEGIN { printf "%.3f", 100 * (s - w) / w }')" 2
same=yes
for path in "$SITE"/large/*.bin; do
  cmp -s "$path" "$SITE/cache/blobs/sha256/$(sha256sum "$path" | cut -d ' ' -f 1)" || same=no
done
figure "the same in the end" "$same" yes
