#!/bin/bash
# perl: text, hashes, sorting, sprintf, files, fork.
# needs: perl
# setup
cat > script.pl <<'SCRIPT'
use strict; use warnings; use List::Util qw(sum shuffle); use Data::Dumper; use POSIX qw(strftime);
my (%count, $f); open $f, '<', $0 or die;
while (<$f>) { $count{lc $_}++ for /\w+/g }
print "$_ $count{$_}\n" for (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0 .. 19];
print join(' ', (keys %count)[0 .. 5]), "\n", join(' ', shuffle 1 .. 20), "\n", sum(1 .. 1000), "\n";
print strftime('%F %T', localtime), " pid $$\n";
for my $n (1 .. 5) { my $pid = fork // die; if (!$pid) { exit $n } waitpid $pid, 0; print "$pid gave ", $? >> 8, "\n" }
my $x = join '', map { chr(97 + $_ % 26) } 1 .. 100000; my $hits = () = $x =~ /(?=([aeiou])[a-z]{3})/g; print "$hits\n";
local $Data::Dumper::Sortkeys = 1; print Dumper { a => [1, { b => 2 }] };
SCRIPT
# record
exec perl script.pl
# check
grep -q 500500 "$OUT" && grep -q 'gave 5' "$OUT"
