# shellcheck shell=bash
# Checking every byte, beside sha256sum: of the file as it is carried, and of what is in it, unpacked. All in the page cache.
say "verify"
mkdir -p "$WORK/content"
tar --zstd -xf "$FILE" -C "$WORK/content"
find "$WORK/content" -type f > "$WORK/members"
sum_content() { xargs sha256sum < "$WORK/members"; }
export -f sum_content
export WORK
settle "$WORK/content"
for round in $(seq $((3 * RUNS))); do
  warm "$FILE"
  timed "$round" verify "$BUNDLE" verify "$FILE"
  timed "$round" sha256sum-file sha256sum "$FILE"
  xargs cat < "$WORK/members" > /dev/null
  timed "$round" sha256sum-content bash -c sum_content
done
rm -rf "$WORK/content"
