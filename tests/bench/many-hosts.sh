# shellcheck shell=bash
# The memory of a controller with fifty hosts, as its own test measures it.
say "fifty hosts"
(cd "$ROOT" && cargo test --quiet -p kubexm-engine --test many_hosts -- --nocapture) > "$WORK/many.log" 2>&1 || { tail -n 20 "$WORK/many.log" >&2; false; }
