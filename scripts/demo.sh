#!/usr/bin/env bash
# Trains the same GPT on the same text three times, in fp32, rms4 and w4a8, then compares and prints a sample.
# Usage: scripts/demo.sh PATH_OF_TESSERA       `make demo` calls it.
# Results: runs/demo/{fp32,rms4,w4a8}/ and runs/demo/summary.json; an older runs/demo is moved aside.
set -euo pipefail
cd "$(dirname "$0")/.."
tessera=$1
text=examples/data/austen.txt
tokens=runs/demo-tokens
out=runs/demo
recipes=(fp32 rms4 w4a8)
seed=1

say() { printf '\n== %s\n' "$*"; }

if [ "$tokens/train.tok" -nt "$text" ] && [ "$tokens/validation.tok" -nt "$text" ]; then
  say "Tokens in $tokens are up to date"
else
  say "Turning $text into tokens"
  "$tessera" prepare "$text" --out "$tokens" --overwrite
fi

if [ -e "$out" ]; then
  n=1
  while [ -e "$out-$n" ]; do n=$((n + 1)); done
  mv "$out" "$out-$n"
  say "Moved the older run to $out-$n"
fi
mkdir -p "$out"

for recipe in "${recipes[@]}"; do
  say "Training with recipe $recipe"
  "$tessera" train --config examples/demo.toml \
    --data.train "$tokens/train.tok" --data.validation "$tokens/validation.tok" \
    --recipe "$recipe" --out "$out/$recipe" --seed "$seed"
done

say "The three runs (also in $out/summary.json)"
python3 scripts/demo_report.py "$out" "${recipes[@]}"

say "A sample of the w4a8 model"
"$tessera" generate "$out/w4a8" --prompt "It was a truth " --tokens 400 --temperature 0.7 --seed 1
echo
