# SPDX-License-Identifier: MIT
# A front for CMake and the scripts: `make help` lists what there is.

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
ROUNDS ?= 1

LIBRARY := build/release/libhakmem.so

.DEFAULT_GOAL := help
.PHONY: help all release check demo test programs soak proof install uninstall install-tool uninstall-tool docs check-style format clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-22s %s\n", $$1, $$2 }'
	@echo "  Variables: PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) JOBS=$(JOBS) ROUNDS=$(ROUNDS)"

all: release ## the release library, build/release/libhakmem.so (a compiler, CMake and nothing else)

# A build folder that came along with a copy of the clone is of no use here.
define own_folder
	@home=$$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' build/$(1)/CMakeCache.txt 2>/dev/null); \
		[ -z "$$home" ] || [ "$$home" -ef . ] || rm -rf build/$(1)
	@[ -z "$$SUDO_UID" ] || [ -e build/$(1)/libhakmem.so ] || \
		{ echo "make: first \`make all\`, without sudo: what root builds here, only root can change" >&2; exit 1; }
endef

release:
	$(call own_folder,release)
	@cmake --preset release -DHAKMEM_TESTS=OFF
	@cmake --build --preset release -j $(JOBS) --target hakmem_shared hakmem_static hakmem_jemalloc

check: ## the library that verifies every invariant while it runs, build/check/libhakmem.so
	$(call own_folder,check)
	@cmake --preset check -DHAKMEM_TESTS=OFF
	@cmake --build --preset check -j $(JOBS) --target hakmem_shared hakmem_static hakmem_jemalloc

demo: ## a real program on the system's malloc and on hakmem, side by side (under a minute)
	@scripts/bootstrap demo
	@$(MAKE) --no-print-directory release
	@demo/run $(LIBRARY)

test: ## every test: installs what is missing, builds, runs
	@scripts/bootstrap test
	@scripts/run-tests --jobs $(JOBS)

programs: release ## only the real programs under LD_PRELOAD
	@tests/programs/run --library $(LIBRARY)

soak: ## the long tests, then every test and program on the check build, ROUNDS times (hours)
	@scripts/bootstrap test
	@scripts/run-tests --jobs $(JOBS) --rounds $(ROUNDS) --only soak,check,programs-check

proof: ## every model with its larger numbers, and every change of the table of mutants: a test must notice (an hour or two)
	@scripts/bootstrap test
	@for model in docs/models/*.pml; do \
		echo "== $$model" && tests/spin/verify.py --full $$model build/proof/$$(basename $$model .pml) || exit 1; done
	@scripts/check-mutants --jobs $(JOBS)

install: release ## stripped library, header, CMake package, .pc file and manual page into DESTDIR/PREFIX
	@scripts/install build/release "$(PREFIX)" "$(DESTDIR)"

uninstall: ## removes what `make install` with this DESTDIR and PREFIX installed, and the folders that it made
	@scripts/install --remove "$(PREFIX)" "$(DESTDIR)"

install-tool: ## the tool `hakmem` with manual pages and completions into DESTDIR/PREFIX (needs cargo; again after changes)
	@scripts/install-tool "$(PREFIX)" "$(DESTDIR)"

uninstall-tool: ## removes those
	@scripts/install-tool --remove "$(PREFIX)" "$(DESTDIR)"

docs: ## the documents as a site, build/site/index.html; each link is followed (mkdocs comes from PyPI)
	@scripts/site

check-style: ## layers, size, links, words, format, tables of options, marks left over
	@scripts/check-layers
	@scripts/check-calls
	@scripts/check-tree
	@scripts/check-format
	@scripts/gen-docs --check

format: ## lets clang-format write
	@scripts/check-format --fix

clean: ## removes everything that was built
	@rm -rf build

-include bench/targets.mk
