# shellcheck shell=bash
# tier: always
# seconds: 60
# needs: lab stock-tools
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

# The same bundle in parts, as scenes further on install it.
check "a key pair is made" "$BUNDLE" keygen -o "$WORK/release"
check "the bundle is signed beside it, and stays as it is" "$BUNDLE" sign --key "$WORK/release.key" --detached -o "$WORK/lab.sig" "$FILE"
mkdir "$WORK/stick"
check "the same bundle is built in volumes" build --split 100M -o "$WORK/stick/lab.tar.zst"
check "a volume is signed in place" "$BUNDLE" sign --key "$WORK/release.key" "$WORK/stick/lab.tar.zst.001"
check "the volumes verify where they lie, by the key" "$BUNDLE" verify --key "$WORK/release.pub" "$WORK/stick"
check "the sums are still those of the volumes" bash -c "cd '$WORK/stick' && sha256sum --quiet -c lab.sums"
check "the volumes verify as one stream" bash -c "cat '$WORK'/stick/lab.tar.zst.0* | '$BUNDLE' verify --key '$WORK/release.pub' -"
check "a delta on the bundle leaves out every blob" bash -c "
  '$BUNDLE' build -f '$WORK/cluster.yaml' --zone '$LAB_ZONE' --catalogue '$LAB_OVERLAY' --cache '$WORK/cache' --base '$FILE' -o '$WORK/delta.tar.zst' &&
  [ \$(stat -c %s '$WORK/delta.tar.zst') -lt 200000 ] && '$BUNDLE' merge '$FILE' '$WORK/delta.tar.zst' -o '$WORK/merged.tar.zst' && cmp '$FILE' '$WORK/merged.tar.zst'"
rm -f "$WORK/merged.tar.zst"
[ ! -s "$FILE" ] || reached build
