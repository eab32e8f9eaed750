# shellcheck shell=bash
# The bundle archive alone: writing, checking, taking one member out, deltas, memory, disk. Each beside a plain way.
. "$ROOT/tests/bench/corpus.sh"
corpus
MEASURE=${KUBEXM_MEASURE:-}
if [ -z "$MEASURE" ]; then
  (cd "$ROOT" && cargo build --quiet --release -p kubexm-archive --example measure)
  MEASURE=${CARGO_TARGET_DIR:-$ROOT/target}/release/examples/measure
fi
OURS=$WORK/ours.tar.zst
THEIRS=$WORK/theirs.tar.zst
CPUS=$(nproc)
# /usr/bin/time sees processes only
ours_write() { "$MEASURE" write "$CORPUS" "$OURS"; }
theirs_write() { tar c -C "$CORPUS" . | zstd -q -f -1 -T0 -o "$THEIRS"; }
ours_verify() { "$BUNDLE" verify --quick "$OURS"; }
# As an operator does it: unpack, then sha256sum on every core.
theirs_verify() {
  rm -rf "$WORK/unpacked" && mkdir "$WORK/unpacked"
  zstd -q -dc "$THEIRS" | tar x -C "$WORK/unpacked"
  (cd "$WORK/unpacked" && cut -c 67- "$CORPUS.sums" | tr '\n' '\0' | xargs -0 -P "$CPUS" -n 8 sha256sum > /dev/null)
}
full_verify() { "$BUNDLE" verify "$OURS" > /dev/null 2>&1 || [ $? = 33 ]; }
limit() { "$MEASURE" limit "$OURS"; }
# What takes some milliseconds is done so often: the clock of time has hundredths of a second.
TIMES=50
timed_each() {
  timed "$@"
  awk -v times="$TIMES" 'BEGIN { FS = OFS = "\t" } { $3 = sprintf("%.4f", $3 / times); $5 /= times; $6 /= times } 1' <(tail -n 1 "$WORK/samples.tsv") > "$WORK/sample"
  sed -i '$d' "$WORK/samples.tsv"
  cat "$WORK/sample" >> "$WORK/samples.tsv"
}
export -f ours_write theirs_write ours_verify theirs_verify full_verify limit
export MEASURE CORPUS OURS THEIRS CPUS BUNDLE WORK TIMES

du -sb "$CORPUS" | cut -f 1 > "$WORK/corpus.size"
say "write and verify, $(cut -c -4 "$WORK/corpus.size")… bytes"
find "$CORPUS" -type f -exec cat {} + > /dev/null
for round in $(seq $((2 * RUNS))); do
  rm -f "$OURS" "$THEIRS"
  timed "$round" archive-write bash -c ours_write
  settle "$OURS"
  timed "$round" archive-tar-zstd bash -o pipefail -c theirs_write
  settle "$THEIRS"
  timed "$round" archive-verify bash -c full_verify
  timed "$round" archive-limit bash -c limit
  timed "$round" archive-quick bash -c ours_verify
  timed "$round" archive-unpack-sum bash -o pipefail -c theirs_verify
  settle "$WORK/unpacked"
  rm -rf "$WORK/unpacked"
done
stat -c %s "$OURS" > "$WORK/ours.size"
stat -c %s "$THEIRS" > "$WORK/theirs.size"

say "a delta: Kubernetes' own programs and images changed"
cp -al "$CORPUS" "$WORK/next"
changed=0
for path in "$WORK"/next/programs/*kube*; do
  # A patch release is other bytes throughout; a delta is made of whole blobs, so one byte makes the same difference.
  cp "$path" "$path.new" && printf x >> "$path.new" && mv "$path.new" "$path"
  changed=$((changed + 1))
done
(cd "$WORK/next" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum) > "$WORK/next.sums"
"$MEASURE" write "$WORK/next" "$WORK/next.tar.zst" > "$WORK/next.size"
"$MEASURE" write "$WORK/next" "$WORK/delta.tar.zst" "$OURS" > "$WORK/delta.size"
rm -rf "$WORK/next" "$WORK/next.tar.zst" "$WORK/delta.tar.zst" "$THEIRS"

say "temporary disk: a file system of the final size and 5 %"
mkdir -p "$WORK/small"
mount -t tmpfs -o "size=$(($(cat "$WORK/ours.size") * 105 / 100))" tmpfs "$WORK/small"
"$MEASURE" write "$CORPUS" "$WORK/small/x.tar.zst" > /dev/null
"$BUNDLE" verify --quick "$WORK/small/x.tar.zst" > /dev/null 2>&1
umount "$WORK/small"
rm -f "$OURS"

say "memory, and one member out of 2 GB"
for gib in 1 2 8; do
  timed 1 "archive-write-${gib}g" "$MEASURE" synthetic $((gib << 30)) "$WORK/big.tar.zst"
  sync "$WORK/big.tar.zst"
  OURS=$WORK/big.tar.zst timed 1 "archive-verify-${gib}g" bash -c full_verify
  if [ "$gib" = 2 ]; then
    members=$("$BUNDLE" list --members --json "$WORK/big.tar.zst")
    # the only one of 1 MiB, and the one of 32 MiB behind it
    SMALL=$(jq -r '[.members[].size] | index(1048576)' <<< "$members")
    LARGE=$(jq -r ".members[$SMALL + 1].name" <<< "$members")
    SMALL=$(jq -r ".members[$SMALL].name" <<< "$members")
    small() { for _ in $(seq "$TIMES"); do "$BUNDLE" cat "$WORK/big.tar.zst" "$SMALL" > "$WORK/member"; done; }
    range() { for _ in $(seq "$TIMES"); do "$BUNDLE" cat --range 16000000-16999999 "$WORK/big.tar.zst" "$LARGE" > "$WORK/member"; done; }
    export -f small range
    export SMALL LARGE
    for round in $(seq $((3 * RUNS))); do
      timed_each "$round" archive-member bash -c small
      timed_each "$round" archive-range bash -c range
      timed "$round" archive-read-all bash -c "zstd -q -dc '$WORK/big.tar.zst' > /dev/null"
    done
  fi
  rm -f "$WORK/big.tar.zst"
done
