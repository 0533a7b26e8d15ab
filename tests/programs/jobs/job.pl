# SPDX-License-Identifier: MIT
# Hashes, strings, regular expressions, sorting and forks.
use strict; use warnings;
my %count; my @lines; my $seed = 7;
sub next_number { $seed = ($seed * 1103515245 + 12345) % 2147483648; return $seed; }
for my $i (1 .. 120000) {
    my $word = sprintf("w%05d", next_number() % 20000);
    $count{$word}++;
    push @lines, join(",", $word, $i, "y" x (next_number() % 60));
}
my $text = join("\n", @lines);
(my $changed = $text) =~ s/w(\d+),(\d+)/$2:$1/g;
my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my %tree; for my $word (@sorted) { my $node = \%tree; $node = $node->{$_} //= {} for split //, $word; }
sub size { my ($node) = @_; my $n = 1; $n += size($_) for values %$node; return $n; }
my $sum = 0;
$sum = ($sum * 31 + ord(substr($changed, $_ * 97, 1))) % 1000000007 for 0 .. int(length($changed) / 97) - 1;
print scalar(keys %count), " ", length($text), " ", length($changed), " ", size(\%tree), " $sum @sorted[0 .. 5]\n";
my @round = (1) x 1000; for (1 .. 200) { @round = map { $_ . "a" } @round; } print length(join "", @round), "\n";
$| = 1;
for my $child (1 .. 4) {
    my $pid = fork(); die unless defined $pid;
    if (!$pid) {
        my @more = map { "child $_" } 1 .. 50000;
        exit(@more == 50000 && $count{$sorted[0]} > 0 ? $child : 99);
    }
    waitpid($pid, 0); print "child $child: ", $? >> 8, "\n";
}
