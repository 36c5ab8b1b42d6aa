# The README's commands. Each does the set-up it needs; a second call does only what changed.
#   make demo | test | build | bench | fuzz | install | format | lint | clean | help
# Variables: PRESET=release (CMakePresets.json), JOBS, PREFIX (make install), PYTHON, TESSERA_TORCH_DIR.

PRESET ?= release
BUILD := build/$(PRESET)
PREFIX ?= install
FUZZ_SECONDS ?= 310
# One job per core, but no more than memory for a translation unit with LibTorch (1.3 GB) allows.
JOBS ?= $(shell awk -v cores=$$(nproc) '/MemAvailable/ {m = int($$2 / 1300000)} \
          END {j = m < cores ? m : cores; print j < 1 ? 1 : j}' /proc/meminfo)
export TESSERA_TORCH_DIR

ifneq ($(TESSERA_TORCH_DIR),)
  CMAKE_FLAGS += -DTESSERA_TORCH_DIR=$(TESSERA_TORCH_DIR)
endif

.PHONY: help demo test build setup configure bench fuzz install format lint clean

help:  ## print this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) \
	  | sed -E 's/^([a-z]+):.*## /\1\t/' | awk -F'\t' '{printf "make %-9s %s\n", $$1, $$2}'

demo: configure  ## train a GPT in fp32, rms4 and w4a8 on a real text, compare, and print a sample
	@echo "== Building the program tessera in $(BUILD)"
	@ninja -C $(BUILD) -j $(JOBS) tessera
	@scripts/demo.sh $(BUILD)/cli/tessera

test: build  ## build everything and run all tests
	@echo "== Running the tests"
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error --parallel $(JOBS)

build: configure  ## build everything
	@echo "== Building in $(BUILD) with $(JOBS) jobs"
	@ninja -C $(BUILD) -j $(JOBS)

setup:  ## install what is missing: system packages, .venv with LibTorch
	@scripts/setup.sh

configure: setup
	@if [ ! -f $(BUILD)/build.ninja ] || [ CMakePresets.json -nt $(BUILD)/build.ninja ] \
	    || [ .venv/tessera-setup -nt $(BUILD)/build.ninja ] || [ -n "$(CMAKE_FLAGS)" ]; then \
	  echo "== Configuring the preset $(PRESET)"; cmake --preset $(PRESET) $(CMAKE_FLAGS); fi

bench: configure  ## measure our products, layers and steps beside the libraries' (20 minutes)
	@ninja -C $(BUILD) -j $(JOBS) tessera
	@GLIBC_TUNABLES=glibc.malloc.hugetlb=1 $(BUILD)/cli/tessera bench gemm
	@GLIBC_TUNABLES=glibc.malloc.hugetlb=1 $(BUILD)/cli/tessera bench linear
	@$(BUILD)/cli/tessera bench step --activations bf16 --rounds 1

fuzz:  ## fuzz the file readers under ASan and UBSan, FUZZ_SECONDS each (default 310); needs clang-16
	@scripts/setup.sh lint
	@cmake --preset fuzz >/dev/null && ninja -C build/fuzz -j $(JOBS)
	@scripts/fuzz.sh build/fuzz/fuzz $(FUZZ_SECONDS)

install: build  ## install the program, headers and libraries to PREFIX (default: install/)
	@cmake --install $(BUILD) --prefix $(PREFIX)

format:  ## format the C++ sources in place
	@scripts/setup.sh lint
	@git ls-files -co --exclude-standard '*.h' '*.cpp' '*.inc' | xargs clang-format-16 -i

lint:  ## check format and names
	@scripts/setup.sh lint
	@scripts/lint.sh

clean:  ## remove build/ and install/; .venv and runs/ stay
	@rm -rf build install
