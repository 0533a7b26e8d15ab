# SPDX-License-Identifier: MIT
# Targets of the benchmark suite, for the Makefile at the root. They need cargo; the library does not.
HAKMEM_CLI := target/release/hakmem

.PHONY: bench bench-quick bench-gate bench-baseline bench-self-test bench-peers

$(HAKMEM_CLI): FORCE
	cargo build --release --quiet

bench: $(HAKMEM_CLI)
	$(HAKMEM_CLI) bench

bench-quick: $(HAKMEM_CLI)
	$(HAKMEM_CLI) bench --quick

bench-gate: $(HAKMEM_CLI)
	$(HAKMEM_CLI) bench --gate

bench-baseline: $(HAKMEM_CLI)
	$(HAKMEM_CLI) bench --gate --update-baseline

bench-self-test: $(HAKMEM_CLI)
	$(HAKMEM_CLI) bench --self-test

bench-peers:
	bench/peers/build.sh

.PHONY: FORCE
FORCE:
