#!/bin/bash
# strace -f -p of a process with two threads, which is stopped and continued, and of one that is stopped already.
# needs: strace gcc
# limit: 120
# stderr varies: process ids
# setup
cat > t.c <<'END'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile int over;
static void end(int signal) { over = signal; }
static void *waits(void *p) { while (!over) { usleep(5000); getppid(); } return p; }
int main(void) {
  signal(SIGTERM, end);
  pthread_t other;
  pthread_create(&other, NULL, waits, NULL);
  for (unsigned long n = 0; !over; n++) if (n % 1000000 == 0) getpid();
  pthread_join(other, NULL);
  puts("over");
  return 3;
}
END
gcc -O1 -pthread t.c -o t
cat > inside.sh <<'END'
./t & p=$!
sleep 0.2; strace -f -o one -p $p & s=$!
sleep 0.4; kill -STOP $p; sleep 0.2; kill -CONT $p; sleep 0.2; kill -INT $s; wait $s; echo strace $?
kill -STOP $p; sleep 0.1; strace -f -o two -p $p & s=$!
sleep 0.3; kill -CONT $p; sleep 0.3; kill -STOP $p; sleep 0.2; kill -INT $s; wait $s; echo strace $?
kill -CONT $p; kill -TERM $p; wait $p; echo ended $?
for i in one two; do grep -c '^[0-9]* *--- stopped by SIGSTOP' $i; grep -c '= -1 (errno\|syscall_0x' $i; done
END
# record
exec bash inside.sh
# check
grep -q '^ended 3' "$OUT" && test "$(grep -c '^0$' "$OUT")" = 2
