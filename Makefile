# SPDX-License-Identifier: BSD-3-Clause
# The everyday words. CMake does the work (CMakePresets.json); `make help` lists them.
#
# JOBS=N limits parallel compiles and tests. PREFIX, DESTDIR: where `make install` puts things.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
export JOBS

# What `make check` builds and which cases it runs; `make check-all` adds the rest of the labels.
CHECK = "release:^core$$" "asan-ubsan:^(unit|sanitized)$$"
CHECK_ALL = "release:^(peers|suites|lab|pages|long)$$" "tsan:^sanitized$$" "fuzz:^fuzz$$"

.PHONY: build demo check check-all check-open check-fresh install uninstall deb bench soak format lint clean help

build: ## build taut and libtaut.so into build/release (the default)
	@tools/need build
	@tools/build release

demo: ## kernel against taut on this machine: sockperf ping-pong, UDP and TCP, side by side
	@tools/need demo
	@tools/build release
	@PATH="$$PATH:$(CURDIR)/build/need/root/usr/bin" build/release/taut compare --preset sockperf

check: ## build, then run the core tests (under 20 minutes on 2 cores)
	@tools/need check
	@tools/build release
	@tools/build dev
	@tools/build asan-ubsan
	@tools/run-tests $(CHECK)

# CHECK= leaves out what `make check` ran before in the same tree.
check-all: ## check, then peers, lab, pages and the longer suites
	@tools/need check-all
	@tools/build release
	@test -z '$(CHECK)' || { tools/build dev && tools/build asan-ubsan; }
	@tools/build tsan
	@tools/build fuzz
	@tools/run-tests $(CHECK) $(CHECK_ALL)

check-open: ## run the cases that tests/OPEN names: known not to pass yet
	@tools/need check-all
	@tools/build release
	@OPEN=only tools/run-tests release

check-fresh: ## prove both words in a Debian chroot that has nothing but git and make (as root)
	@tools/need check-fresh
	@tests/pkg/minbase

install: ## install below PREFIX (/usr/local), staged below DESTDIR if given
	@tools/need build
	@tools/build release -DCMAKE_INSTALL_PREFIX="$(abspath $(PREFIX))"
	@cmake --install build/release

uninstall: ## remove what the last install from this tree put in place
	@test -f build/release/install_manifest.txt || { echo "uninstall: nothing was installed from here" >&2; exit 3; }
	@sed "s|^|$(DESTDIR)|" build/release/install_manifest.txt | xargs -d '\n' rm -fv

deb: ## build a Debian package into build/
	@tools/need build
	@packaging/make-deb

bench: ## run the benchmarks and print their ratios
	@tools/need bench
	@tools/build release
	@bench/run

soak: ## fuzz targets and long suites, for hours (SOAK_S=seconds for each target)
	@tools/need check-all
	@tools/soak

format: ## lay out the C sources with clang-format
	@tools/need format
	@git ls-files '*.c' '*.h' | xargs clang-format -i

lint: ## clang-tidy over the C sources
	@tools/need lint
	@tools/build dev
	@git ls-files 'src/*.c' | xargs -P $(JOBS) -n 4 clang-tidy --quiet -p build/dev

clean: ## remove build/
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
