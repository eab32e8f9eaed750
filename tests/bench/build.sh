# shellcheck shell=bash
# Building with everything in the cache, beside tar and zstd over the same files.
say "build"
"$BUNDLE" inspect --json "$FILE" > "$WORK/inspect.json"
# the files of the cache that went into the bundle
python3 - "$WORK/inspect.json" "$CACHE" > "$WORK/files" << 'PY'
import json, os, sys
members = [m["name"] for m in json.load(open(sys.argv[1]))["members"]]
print("\n".join(m for m in members if os.path.exists(f"{sys.argv[2]}/{m}")))
PY
tar_zstd() { tar c -C "$CACHE" -T "$WORK/files" | zstd -q -f -1 -T0 -o "$WORK/tar.zst"; }
tar_zstd_sync() { tar_zstd && sync "$WORK/tar.zst"; }
export -f build tar_zstd tar_zstd_sync
export WORK CACHE FILE BUNDLE

(cd "$CACHE" && xargs cat < "$WORK/files") | wc -c > "$WORK/files.size"
for round in $(seq $((3 * RUNS))); do
  rm -f "$FILE"; timed "$round" build bash -c build
  timed "$round" "tar-zstd" bash -o pipefail -c tar_zstd
  settle "$WORK/tar.zst"; rm -f "$WORK/tar.zst"
  timed "$round" "tar-zstd-sync" bash -o pipefail -c tar_zstd_sync
  stat -c %s "$WORK/tar.zst" > "$WORK/tar.size"
  rm -f "$WORK/tar.zst"
done
