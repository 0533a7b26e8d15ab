<?php
// SPDX-License-Identifier: MIT
// A PHP job of the benchmark suite: JSON there and back, strings sorted, arrays that grow and go.
ini_set('memory_limit', '-1');
mt_srand(42);

function work(): array
{
    $records = [];
    for ($i = 0; $i < 60000; $i++) {
        $records[] = ['id' => $i, 'name' => 'user' . mt_rand(), 'scores' => [mt_rand(), mt_rand(), mt_rand()]];
    }
    for ($i = 0; $i < 3; $i++) {
        $records = json_decode(json_encode($records), true);
    }
    usort($records, fn($a, $b) => strcmp($a['name'], $b['name']));
    $text = implode(',', array_map(fn($r) => str_repeat($r['name'], 5), $records));
    return [count($records), count(explode(',', $text)), strlen(gzcompress($text, 1)) > 0];
}

echo implode(' ', work()), "\n";
if (getenv('HAKMEM_BENCH_REST')) {
    touch(getenv('HAKMEM_BENCH_REST'));
    usleep(2200000);
}
