#!/usr/bin/env bash
# Installs a build to a temporary prefix, then builds and runs examples/consumer against it.
# Usage: tests/install/run.sh SOURCE_DIR BUILD_DIR COMPILER
set -euo pipefail
source_dir=$1 build_dir=$2 compiler=$3
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

cmake --install "$build_dir" --prefix "$prefix/usr" >"$prefix/install.log"
"$prefix/usr/bin/tessera" --version
# A copy, so that nothing of the source tree can be found by accident.
cp -r "$source_dir/examples/consumer" "$prefix/consumer"
cmake -S "$prefix/consumer" -B "$prefix/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix/usr" \
  -DCMAKE_CXX_COMPILER="$compiler" >"$prefix/configure.log" || { cat "$prefix/configure.log"; exit 1; }
cmake --build "$prefix/build"
"$prefix/build/spirals"
