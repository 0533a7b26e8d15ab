#!/bin/sh
# SPDX-License-Identifier: MIT
# git: a history of 1,500 commits is read in, packed and told.
set -eu
repository=$HAKMEM_BENCH_SCRATCH/history
rm -rf "$repository"
git init -q --bare "$repository"
cd "$repository"
awk 'BEGIN {
    srand(42)
    for (c = 1; c <= 1500; c++) {
        text = ""
        lines = 20 + int(rand() * 200)
        for (l = 0; l < lines; l++)
            text = text "line " int(rand() * 1000) " of some file that changes\n"
        printf "commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata 3\nc%02d", 1700000000 + c, c % 100
        printf "\nM 644 inline dir%d/file%d\ndata %d\n%s\n", c % 7, c % 90, length(text), text
    }
}' | git fast-import --quiet
git repack -a -d -f -q --window=20
git log --stat --format=%s main | tail -n 1
