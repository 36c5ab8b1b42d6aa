#!/usr/bin/env bash
# Puts in place what the build needs, and only what is missing:
#   1. system packages (packages-debian.txt), by apt-get as root or through sudo;
#   2. .venv with the wheel that requirements.txt pins; LibTorch's headers and libraries lie in it.
# Usage: scripts/setup.sh [lint]      lint: also the packages of packages-debian-lint.txt
# Environment: PYTHON (default python3), TESSERA_TORCH_DIR (use that LibTorch, make no .venv),
#              TESSERA_SYSTEM_PACKAGES=off (take the system as it is).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

say() { printf '== %s\n' "$*"; }
fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

listed_packages() {  # FILE...
  grep -hv '^#' "$@"
}

# The package's name, or nothing when its state is "installed".
missing_package() {  # NAME
  if [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" != installed ]; then
    echo "$1"
  fi
}

# Xbyak writes x86 code; Debian has it for x86 only, and the build asks for it there only.
needed_here() {  # NAME
  case "$1" in
    libxbyak-dev) [ "$(uname -m)" = x86_64 ] ;;
    g++) ! command -v c++ >/dev/null ;;
    cmake | ccache) ! command -v "$1" >/dev/null ;;
    ninja-build) ! command -v ninja >/dev/null ;;
    pkg-config) ! command -v pkg-config >/dev/null ;;
    *) true ;;
  esac
}

# Debian splits venv's installer off python3; other Pythons bring it.
python_lacks_venv() {
  ! "$python" -c 'import ensurepip, venv' 2>/dev/null
}

system_packages() {  # FILE...
  local name missing=()
  while read -r name; do
    if needed_here "$name" && [ -n "$(missing_package "$name")" ]; then
      missing+=("$name")
    fi
  done < <(listed_packages "$@")
  if [ "$python" = python3 ] && ! command -v python3 >/dev/null; then
    missing+=(python3 python3-venv)
  elif [ -z "${TESSERA_TORCH_DIR:-}" ] && [ ! -x .venv/bin/python ] && command -v "$python" >/dev/null \
    && python_lacks_venv; then
    if [ "$("$python" -c 'import sys; print(sys.prefix)')" != /usr ]; then
      fail "$(command -v "$python") cannot make a virtual environment: it lacks the module ensurepip." \
        "Choose another Python with PYTHON=/path/to/python3."
    fi
    missing+=(python3-venv)
  fi
  if [ ${#missing[@]} -gt 0 ]; then
    install_packages "${missing[@]}"
  fi
}

install_packages() {  # NAME...
  local as_root=() log
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      no_root "$@"
    elif ! sudo -n true 2>/dev/null; then
      [ -t 0 ] || no_root "$@"
      say "sudo may ask for your password to install: $*"
    fi
    as_root=(sudo)
  fi
  say "Installing ${#} system packages with apt-get: $*"
  log=$(mktemp)
  # A stale list is no reason to stop: the installation below decides.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q >"$log" 2>&1 || true
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "$@" >>"$log" 2>&1; then
    grep -E '^(E|Err|W):' "$log" | tail -n 5 >&2 || true
    fail "apt-get could not install: $*" \
      "Its output is in $log. Is this machine connected, and is it Debian 12 or newer? Then run make again."
  fi
  rm -f "$log"
}

no_root() {  # NAME...
  printf 'setup: %s\n' "These system packages are missing, and only root can install them:" >&2
  printf '  %s\n' "$@" >&2
  fail "Ask for them, or run this as root, then run make again:" "  apt-get update && apt-get install -y $*"
}

torch_wheel() {
  local stamp=.venv/tessera-setup want log
  command -v "$python" >/dev/null || fail "There is no Python at $python; set PYTHON=/path/to/python3."
  want=$(sha256sum requirements.txt | cut -d' ' -f1)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && .venv/bin/python -c '' 2>/dev/null; then
    return
  fi
  if ! .venv/bin/python -c '' 2>/dev/null; then
    say "Making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv || fail "$python -m venv .venv failed; its message is above."
  fi
  say "Installing $(listed_packages requirements.txt | tr '\n' ' ')into .venv (a large download the first time)"
  log=$(mktemp)
  if ! .venv/bin/python -m pip install --disable-pip-version-check -q -r requirements.txt >"$log" 2>&1; then
    grep -i '^error' "$log" | tail -n 5 >&2 || true
    fail "pip could not install requirements.txt for $(.venv/bin/python --version); its output is in $log." \
      "docs/building.md lists the Pythons that have a wheel, and how to use a LibTorch from elsewhere."
  fi
  rm -f "$log"
  echo "$want" >"$stamp"
}

lists=(scripts/packages-debian.txt)
if [ "${1:-}" = lint ]; then
  lists+=(scripts/packages-debian-lint.txt)
fi
if [ "${TESSERA_SYSTEM_PACKAGES:-on}" != off ]; then
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    fail "This system has no apt-get. Install what $(echo "${lists[@]}") name under their names here," \
      "then run make with TESSERA_SYSTEM_PACKAGES=off."
  fi
  system_packages "${lists[@]}"
fi
if [ -z "${TESSERA_TORCH_DIR:-}" ]; then
  torch_wheel
fi
