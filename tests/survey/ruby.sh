#!/bin/bash
# ruby: threads, a fork, a subprocess, the garbage collector.
# needs: ruby
# setup
cat > a.rb <<'END'
ts = 4.times.map { |i| Thread.new { (1..20000).reduce(:+) * i } }
p ts.map(&:value)
h = Hash.new(0); 200000.times { |i| h["k#{i % 1000}"] += 1 }; p h.size
puts `echo sub; seq 3`
GC.start
pid = fork { exit 3 }
Process.wait pid
p $?.exitstatus
begin; Timeout rescue nil; end
require 'timeout'
begin; Timeout.timeout(0.05) { loop {} }; rescue Timeout::Error; puts "timed out"; end
END
# record
ruby a.rb
# check
grep -q '^timed out$' "$OUT"
