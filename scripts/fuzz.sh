#!/usr/bin/env bash
# Runs each fuzzer for a while from its corpus and adds the inputs that reach new code to it.
# Usage: scripts/fuzz.sh FOLDER_OF_PROGRAMS SECONDS_EACH       `make fuzz` calls it. Stops at the first finding.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$1 seconds=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for corpus in fuzz/corpus/*/; do
  name=$(basename "$corpus")
  printf '== %s: %s s\n' "$name" "$seconds"
  mkdir "$work/$name"
  "$programs/${name}_fuzzer" -max_total_time="$seconds" -max_len=4096 -print_final_stats=1 \
    -artifact_prefix="$work/" "$work/$name" "$corpus" 2>"$work/$name.log" || {
    tail -n 30 "$work/$name.log" >&2
    cp "$work"/*-* . 2>/dev/null || true  # the offending input
    exit 1
  }
  grep -E '^(Done|stat::number_of_executed_units)' "$work/$name.log"
  "$programs/${name}_fuzzer" -set_cover_merge=1 "$corpus" "$work/$name" 2>/dev/null
done
