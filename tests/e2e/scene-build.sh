# shellcheck shell=bash
# A bundle from cluster.yaml, on the connected side.
say "build"
lab cluster-yaml n1 10.77.0.11 > "$WORK/cluster.yaml"
FILE=$WORK/lab.tar.zst
build() { "$BUNDLE" build -f "$WORK/cluster.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" "$@"; }

check "a bundle is built from cluster.yaml, a zone and an overlay" build -o "$FILE"
check "building again gives the same bytes" bash -c "
  '$BUNDLE' build -f '$WORK/cluster.yaml' --zone '$LAB_ZONE' --catalogue '$LAB_OVERLAY' --cache '$WORK/cache' -o '$WORK/again.tar.zst' && cmp '$FILE' '$WORK/again.tar.zst'"
rm -f "$WORK/again.tar.zst"
check "every byte verifies and nothing is missing" "$BUNDLE" verify "$FILE"
check "inspect shows overlay trust" bash -c "'$BUNDLE' inspect --json '$FILE' | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert {a[\"trust\"] for a in d[\"artifacts\"]} == {\"overlay\", \"self-built\"}, d[\"artifacts\"]'"
check "tar reads it" bash -c "tar --zstd -tf '$FILE' | grep -q '^index.json'"
check "unpacked it is an OCI layout with upstream's names" bash -c "
  mkdir -p '$WORK/layout' && tar --zstd -xf '$FILE' -C '$WORK/layout' &&
  skopeo inspect --override-os linux --override-arch amd64 'oci:$WORK/layout:registry.k8s.io/pause:3.10.1' > /dev/null"
check "indexes are byte for byte upstream's, with the platform that is not carried" bash -c "
  digest=\$(sed -n 's,.*registry.k8s.io/pause:3.10.1\": sha256:\([0-9a-f]*\).*,\1,p' '$LAB_OVERLAY')
  grep -q arm64 \"$WORK/layout/blobs/sha256/\$digest\""
rm -rf "$WORK/layout"
