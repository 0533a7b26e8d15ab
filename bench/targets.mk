# SPDX-License-Identifier: MIT
# Targets of the benchmark suite, for the Makefile at the root. They need cargo; the library does not.
HAKMEM_CLI := target/release/hakmem

.PHONY: bench bench-quick bench-gate bench-baseline bench-self-test bench-peers

$(HAKMEM_CLI): FORCE
	@scripts/bootstrap bench || echo "bench: rows that need what is missing will be marked"
	cargo build --release

bench: $(HAKMEM_CLI) ## the full suite against every peer, up to an hour
	$(HAKMEM_CLI) bench

bench-quick: $(HAKMEM_CLI) ## the short suite, at most 5 minutes
	$(HAKMEM_CLI) bench --quick

bench-gate: $(HAKMEM_CLI) ## fails when hakmem fell behind bench/baseline.json
	$(HAKMEM_CLI) bench --gate

bench-baseline: $(HAKMEM_CLI) ## records the present ratios for the gate
	$(HAKMEM_CLI) bench --gate --update-baseline

bench-self-test: $(HAKMEM_CLI) ## the suite against allocators that are wrong on purpose
	$(HAKMEM_CLI) bench --self-test

bench-peers: ## builds the other allocators
	bench/peers/build.sh

# The root Makefile builds the library.
bench bench-quick bench-gate bench-baseline: release

.PHONY: FORCE
FORCE:
