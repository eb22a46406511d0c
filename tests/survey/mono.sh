#!/bin/bash
# Mono: the C# compiler, threads, a collector.
# needs: mcs mono
# limit: 240
# setup
echo 'using System; using System.Linq; using System.Threading.Tasks; class A { static int Main() { var t = Enumerable.Range(0, 4).Select(i => Task.Run(() => Enumerable.Range(0, 100000).Sum(x => (long)x * i))).ToArray(); Task.WaitAll(t); foreach (var x in t) Console.WriteLine(x.Result); GC.Collect(); try { object o = null; o.ToString(); } catch (NullReferenceException) { Console.WriteLine("caught"); } return 5; } }' > a.cs
# record
mcs a.cs && mono a.exe; echo "status $?"
# check
grep -q '^status 5$' "$OUT" && grep -q '^caught$' "$OUT"
