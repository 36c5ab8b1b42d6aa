#!/usr/bin/env bash
# Checks the format of every C++ source and, with clang-tidy, names and common bugs of what the build compiles.
# Usage: scripts/lint.sh [FILE.cpp...]    default: all
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -co --exclude-standard '*.h' '*.cpp' '*.inc' | xargs clang-format-16 --dry-run -Werror
cmake --preset lint >/dev/null
if [ $# -gt 0 ]; then
  run-clang-tidy-16 -quiet -p build/lint "$@"
else
  run-clang-tidy-16 -quiet -p build/lint
fi
