#!/bin/bash
# needs: perl
# perl: fork, pipes, sockets, sprintf, sort, regular expressions, local time.
exec perl -e '
  use strict; use Socket; use IO::Handle;
  socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die;
  my $pid = fork // die;
  if (!$pid) { close $a; print $b "child $$ says ", join(",", map { $_ * $_ } 1 .. 5), "\n"; exit 3 }
  close $b; my $line = <$a>; waitpid $pid, 0;
  die "status $?" unless $? >> 8 == 3;
  die "line" unless $line =~ /^child $pid says 1,4,9,16,25$/;
  my %h = map { $_ => rand } "a" .. "z";
  print join(" ", keys %h), "\n", scalar(localtime), "\n";
  $SIG{ALRM} = sub { print "alarm\n" }; use Time::HiRes qw(ualarm); ualarm 5000; select undef, undef, undef, 1;
  print "guest ok\n";'
