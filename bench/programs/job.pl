# SPDX-License-Identifier: MIT
# A Perl job of the benchmark suite: hashes, strings and lists that grow, are sorted and go.
use strict;
use warnings;
srand(42);

sub work {
    my (%count, @words);
    push @words, join('', map { chr(97 + int(rand(26))) } 1 .. 4 + rand(12)) for 1 .. 120_000;
    $count{substr($_, 0, 3)}++ for @words;
    my @sorted = sort { $count{substr($b, 0, 3)} <=> $count{substr($a, 0, 3)} || $a cmp $b } @words;
    my $text = join(' ', @sorted);
    my @parts = map { [split //, $_] } @sorted[0 .. 20_000];
    (my $changed = $text) =~ s/([aeiou])/<$1>/g;
    return scalar(@parts), length($changed);
}

print join(' ', work()), "\n";
if ($ENV{HAKMEM_BENCH_REST}) {
    open(my $file, '>', $ENV{HAKMEM_BENCH_REST}) or die $!;
    close($file);
    select(undef, undef, undef, 2.2);
}
