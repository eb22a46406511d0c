#!/bin/bash
# Java: the compiler and a program with a pool of threads and a garbage collector, which works.
# needs: java javac
# limit: 240
# setup
cat > Pool.java <<'END'
import java.util.*; import java.util.concurrent.*; import java.util.stream.*;
public class Pool {
  public static void main(String[] a) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<Future<Long>> all = new ArrayList<>();
    for (int t = 0; t < 8; t++) { final int n = t; all.add(pool.submit(() -> {
      Map<String, Long> m = new HashMap<>(); for (int i = 0; i < 50000; i++) m.merge("k" + (i * n % 997), 1L, Long::sum);
      return m.values().stream().mapToLong(x -> x).sum() + m.size(); })); }
    for (Future<Long> f : all) System.out.println(f.get());
    pool.shutdown();
    System.out.println(IntStream.range(0, 100000).parallel().mapToObj(i -> "x" + i).collect(Collectors.toList()).size());
    System.exit(4);
  }
}
END
# record
javac Pool.java && java Pool
echo "status $?"
# check
grep -q '^status 4$' "$OUT"
