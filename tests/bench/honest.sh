# shellcheck shell=bash
# A bundle without duplicates, as a whole: building (locking included) and verifying, each beside a plain way. What goes in: the
# programs of one release, its images, packages of Debian. Sizes also of programs alone, and of programs of two releases.
HONEST=$WORK/honest
CPUS=$(nproc)
mkdir -p "$HONEST"
lab packages >&2
ZSTD_DEFAULT=$WORK/zstd-default
# Hauler itself is no module that a Go proxy has; its compressor is. HAULER_ZSTD names one that is built already.
if [ -n "${HAULER_ZSTD:-}" ]; then
  cp "$HAULER_ZSTD" "$ZSTD_DEFAULT"
else
  mkdir -p "$WORK/zstd-default.src"
  cp "$ROOT/tests/bench/zstd-default.go" "$WORK/zstd-default.src/main.go"
  printf 'module bench\n\ngo 1.24.0\n' > "$WORK/zstd-default.src/go.mod"
  (cd "$WORK/zstd-default.src" && go get github.com/klauspost/compress@v1.18.0 && go build -o "$ZSTD_DEFAULT" .) >&2 ||
    echo "bench: without the part that compresses as Hauler does: its compressor could not be built" >&2
fi

# link NAME FOLDER FILE...: the files, each content once, under names that no two have; hard links, so that nothing is read twice
link() {
  local into=$HONEST/$1/$2 file sum
  shift 2
  mkdir -p "$into"
  for file in "$@"; do
    sum=$(sha256sum < "$file" | head -c 12)
    [ -n "$(find "$into" -name "*-$sum" -print -quit)" ] || cp -l "$file" "$into/${file##*/}-$sum" 2> /dev/null || cp "$file" "$into/${file##*/}-$sum"
  done
}

# yaml NAME LAYOUT...: a cluster.yaml of extras: all files of the corpus, and the images
yaml() {
  local name=$1 file layout
  shift
  printf 'apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: %s}\nspec:\n  bundle:\n    extraFiles:\n' "$name"
  find "$HONEST/$name" -type f | LC_ALL=C sort | while read -r file; do printf '    - {path: "%s"}\n' "$file"; done
  [ "$#" = 0 ] || printf '    extraImages:\n'
  for layout in "$@"; do printf '    - {name: "%s", from: "oci:%s"}\n' "${layout#"$HONEST/oci/"}:bench" "$layout"; done
}

# The lab has images of two releases in a layout, and the bundle has those of one.
K8S=$(. "$ROOT/tests/lab/versions.sh" && echo "$LAB_K8S")
rm -rf "$HONEST/oci"
cp -al "$LAB/oci" "$HONEST/oci" 2> /dev/null || cp -a "$LAB/oci" "$HONEST/oci"
mapfile -t LAYOUTS < <(find "$HONEST/oci" -name oci-layout -printf '%h\n' | LC_ALL=C sort)
for layout in "${LAYOUTS[@]}"; do
  python3 - "$layout/index.json" "v$K8S" << 'PY'
import json, os, sys
path, tag = sys.argv[1:]
index = json.load(open(path))
named = [one for one in index["manifests"] if one["annotations"]["org.opencontainers.image.ref.name"] == tag]
index["manifests"] = named or index["manifests"]
# The file is the lab's own, by a link.
os.remove(path)
json.dump(index, open(path, "w"))
PY
done
mapfile -t RELEASE < <(find "$LAB/k8s/$K8S" "$LAB/bin" -maxdepth 1 -type f -perm -u+x | LC_ALL=C sort)
mapfile -t OTHER < <(find "$LAB/k8s" "$LAB/bin-containerd-1" -maxdepth 2 -type f -perm -u+x | LC_ALL=C sort)
mapfile -t DEBS < <(find "$LAB/packages" -name '*.deb' | LC_ALL=C sort)
link honest programs "${RELEASE[@]}"
link honest packages "${DEBS[@]}"
link programs programs "${RELEASE[@]}"
link two-releases programs "${RELEASE[@]}" "${OTHER[@]}"
yaml honest "${LAYOUTS[@]}" > "$HONEST/honest.yaml"
yaml programs > "$HONEST/programs.yaml"
yaml two-releases > "$HONEST/two-releases.yaml"

# The same files for the others: the layouts' blobs too, those that the index leads to, as the bundle has them. A layout that was
# written again has blobs of before.
for layout in "${LAYOUTS[@]}"; do
  while read -r blob; do
    mkdir -p "$HONEST/honest/blobs"
    cp -l "$blob" "$HONEST/honest/blobs/" 2> /dev/null || cp -n "$blob" "$HONEST/honest/blobs/"
  done < <(
    python3 - "$layout" << 'PY'
import json, sys
layout, seen = sys.argv[1], set()
def follow(document):
    named = [*document.get("manifests", []), *document.get("layers", []), *filter(None, [document.get("config")])]
    for descriptor in named:
        if descriptor["digest"] in seen:
            continue
        seen.add(descriptor["digest"])
        path = f"{layout}/blobs/{descriptor['digest'].replace(':', '/')}"
        print(path)
        if "manifest" in descriptor["mediaType"] or "index" in descriptor["mediaType"]:
            follow(json.load(open(path)))
follow(json.load(open(f"{layout}/index.json")))
PY
  )
done

# NAME is set by whoever calls them.
honest_build() { rm -rf "$WORK/honest-cache" && "$BUNDLE" build -f "$HONEST/$NAME.yaml" --cache "$WORK/honest-cache" -o "$HONEST/$NAME.tar.zst"; }
honest_tar() { tar c -C "$HONEST/$NAME" . | zstd -q -f -1 -T0 -o "$HONEST/$NAME.plain"; }
honest_tar_sync() { honest_tar && sync "$HONEST/$NAME.plain"; }
# As Hauler's save compresses: tar of a layout through the zstd of klauspost/compress at its default level.
honest_default() { tar c -C "$HONEST/$NAME" . | "$ZSTD_DEFAULT" > "$HONEST/$NAME.default"; }
honest_verify() { "$BUNDLE" verify "$HONEST/$NAME.tar.zst"; }
honest_unpack_sum() {
  rm -rf "$HONEST/unpacked" && mkdir "$HONEST/unpacked"
  zstd -q -dc "$HONEST/$NAME.plain" | tar x -C "$HONEST/unpacked"
  (cd "$HONEST/unpacked" && find . -type f -print0 | xargs -0 -P "$CPUS" -n 8 sha256sum > /dev/null)
}
export -f honest_build honest_tar honest_tar_sync honest_default honest_verify honest_unpack_sum
export HONEST CPUS BUNDLE WORK ZSTD_DEFAULT

for NAME in honest programs two-releases; do
  export NAME
  say "$NAME: $(find "$HONEST/$NAME" -type f | wc -l) files, $(du -sb --apparent-size "$HONEST/$NAME" | cut -f 1) bytes"
  find "$HONEST/$NAME" -type f -exec cat {} + > /dev/null
  for round in $(seq $((2 * RUNS))); do
    rm -f "$HONEST/$NAME".{tar.zst,plain,default}
    timed "$round" "$NAME-build" bash -c honest_build
    settle "$HONEST/$NAME.tar.zst"
    timed "$round" "$NAME-tar-sync" bash -o pipefail -c honest_tar_sync
    if [ -x "$ZSTD_DEFAULT" ]; then
      timed "$round" "$NAME-default" bash -o pipefail -c honest_default
      settle "$HONEST/$NAME.default"
    fi
    [ "$NAME" = honest ] || continue
    timed "$round" "$NAME-verify" bash -c honest_verify
    timed "$round" "$NAME-unpack-sum" bash -o pipefail -c honest_unpack_sum
    settle "$HONEST/unpacked"
    rm -rf "$HONEST/unpacked"
  done
  printf '%s\t%s\t%s\t%s\t%s\n' "$NAME" "$(du -sb --apparent-size "$HONEST/$NAME" | cut -f 1)" "$(stat -c %s "$HONEST/$NAME.tar.zst")" \
    "$(stat -c %s "$HONEST/$NAME.plain")" "$(stat -c %s "$HONEST/$NAME.default" 2> /dev/null || echo 0)" >> "$WORK/honest.tsv"
done
