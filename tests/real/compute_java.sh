#!/bin/bash
# java: threads that compute and make garbage, in code that the compiler makes while they run; and in the interpreter alone.
# needs: java javac
# setup
cat > Work.java <<'SCRIPT'
import java.util.Arrays;
public class Work {
    static volatile int turn;
    static int rounds;
    static long work(int number) {
        long sum = 0;
        byte[][] garbage = new byte[64][];
        for (int k = 0; k < rounds; k++) {
            sum += (long) k * k % 7;
            if (k % 1000 == 0) garbage[k / 1000 % 64] = new byte[20000];
            if (k % 100000 == 0) turn = turn * 31 + number;
        }
        return sum + garbage.length;
    }
    public static void main(String[] arguments) throws Exception {
        rounds = Integer.parseInt(arguments[0]);
        long[] results = new long[4];
        Thread[] threads = new Thread[4];
        for (int i = 0; i < 4; i++) {
            final int number = i;
            threads[i] = new Thread(() -> results[number] = work(number));
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        System.gc();
        System.out.println(Arrays.toString(results) + " " + turn + " finished");
    }
}
SCRIPT
javac Work.java
# record
java -Xmx64m Work 3000000 && java -Xint -Xmx64m Work 300000
# check
test "$(grep -c finished "$OUT")" = 2
