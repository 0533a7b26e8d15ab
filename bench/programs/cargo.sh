#!/bin/sh
# SPDX-License-Identifier: MIT
# cargo: the small crate in crate/ is built, without a network. Debian's compiler, because that of rustup has an allocator
# of its own.
set -eu
out=$HAKMEM_BENCH_SCRATCH/cargo
rm -rf "$out"
RUSTC=/usr/bin/rustc CARGO_TARGET_DIR=$out /usr/bin/cargo build --quiet --offline \
    --manifest-path "$(dirname "$0")/crate/Cargo.toml"
"$out/debug/words" <"$0"
