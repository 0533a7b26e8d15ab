# SPDX-License-Identifier: MIT
# The shell and its tools on data.csv, tree/ and tree2/.
set -euo pipefail
declare -A seen
for ((i = 0; i < 20000; i++)); do key="k$((i * 7919 % 1009))"; seen[$key]=$(( ${seen[$key]:-0} + 1 )); done
echo "keys ${#seen[@]}"
text=""; for ((i = 0; i < 5000; i++)); do text+="line $i;"; done; echo "text ${#text}"
f() {
    local n=$1
    if ((n < 2)); then echo "$n"; else echo $(($(f $((n - 1))) + $(f $((n - 2))))); fi
}
echo "fib $(f 9)"
sort -t, -k2,2n -S 20M --parallel=2 data.csv | sha256sum | cut -c1-64
awk -F, '{ s[$3] += $2 } END { n = 0; for (k in s) n += s[k]; printf "%.0f\n", n }' data.csv
cut -d, -f3 data.csv | sort | uniq -c | wc -l
grep -c ',7[0-9]*,' data.csv
sed -e 's/,/;/g' data.csv | tr -d '\n' | wc -c
find tree -type f | xargs -n 20 cat | wc -c
diff -r tree tree2 && echo "trees are equal"
dd if=data.csv bs=1M status=none | md5sum | cut -c1-32
