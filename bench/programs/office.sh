#!/bin/sh
# SPDX-License-Identifier: MIT
# LibreOffice: a table of 8,000 rows from CSV to xlsx.
set -eu
scratch=$HAKMEM_BENCH_SCRATCH
awk 'BEGIN { srand(42); for (r = 0; r < 8000; r++) printf "%d,name%d,%f,%f,some text of row %d,=A%d+C%d\n", r,
    rand() * 1000, rand(), rand() * 100, r, r + 1, r + 1 }' >"$scratch/table.csv"
convert() {
    /usr/lib/libreoffice/program/soffice.bin "-env:UserInstallation=file://$scratch/office" --headless --norestore \
        --convert-to xlsx --outdir "$scratch" "$scratch/table.csv"
}
# The first start makes a profile, and wants to be started again.
[ -d "$scratch/office" ] || convert || true
convert
test -s "$scratch/table.xlsx"
rm "$scratch/table.xlsx"
