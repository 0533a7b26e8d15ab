<?php
// SPDX-License-Identifier: MIT
// Arrays, strings, sorting, JSON, regular expressions, objects with circles that its collector takes.
$words = [];
for ($i = 0; $i < 60000; $i++) {
    $words["k" . ($i * 7919 % 60000)] = str_repeat(chr(97 + $i % 26), $i % 50) . $i;
}
ksort($words);
$text = json_encode($words);
$again = json_decode($text, true);
class Node { public $next; public $load; }
for ($i = 0; $i < 20000; $i++) {
    $a = new Node; $b = new Node;
    $a->next = $b; $b->next = $a; $a->load = str_repeat("x", 100);
}
echo gc_collect_cycles() >= 0 ? "collected\n" : "not\n";
echo count($again), " ", md5($text), " ", preg_match_all('/a+\d/', $text), "\n";
