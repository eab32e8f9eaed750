# shellcheck shell=bash
# Building with everything in the cache, beside tar and zstd over the same files.
say "build"
"$BUNDLE" inspect --json "$FILE" > "$WORK/inspect.json"
# The files of the cache that went into the bundle, and the blobs that were packed from where they lie.
python3 - "$WORK/inspect.json" "$CACHE" "$WORK" << 'PY'
import json, os, sys
inspect, cache, work = sys.argv[1:]
members = [m["name"] for m in json.load(open(inspect))["members"]]
cached = [m for m in members if os.path.exists(f"{cache}/{m}")]
local = [m for m in members if m.startswith("blobs/") and m not in cached]
for name, names in (("files", cached), ("local-files", local)):
    open(f"{work}/{name}", "w").write("".join(f"{m}\n" for m in names))
PY
rm -rf "$WORK/local"
mkdir "$WORK/local"
[ ! -s "$WORK/local-files" ] || tar --zstd -xf "$FILE" -C "$WORK/local" -T "$WORK/local-files"
tar_zstd() { tar c -C "$CACHE" -T "$WORK/files" -C "$WORK/local" -T "$WORK/local-files" | zstd -q -f -1 -T0 -o "$WORK/tar.zst"; }
tar_zstd_sync() { tar_zstd && sync "$WORK/tar.zst"; }
export -f build tar_zstd tar_zstd_sync
export WORK CACHE FILE BUNDLE

( (cd "$CACHE" && xargs cat < "$WORK/files") && (cd "$WORK/local" && xargs -r cat < "$WORK/local-files") ) | wc -c > "$WORK/files.size"
for round in $(seq $((3 * RUNS))); do
  rm -f "$FILE"; timed "$round" build bash -c build
  timed "$round" "tar-zstd" bash -o pipefail -c tar_zstd
  settle "$WORK/tar.zst"; rm -f "$WORK/tar.zst"
  timed "$round" "tar-zstd-sync" bash -o pipefail -c tar_zstd_sync
  stat -c %s "$WORK/tar.zst" > "$WORK/tar.size"
  rm -f "$WORK/tar.zst"
done
