#!/bin/bash
# Programs that report their own crash: Python's faulthandler at signals of all kinds, on a thread that is not the first, on an
# alternate stack, and when a time is over; and a program whose handler lets gdb attach to it and print its stack.
# needs: python3 gdb gcc
# setup
cat > a.c <<'C'
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static void report(int nr) {
  char pid[16];
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  pid_t child = fork();
  if (child == 0) {
    execlp("gdb", "gdb", "-q", "-nx", "-batch", "-p", pid, "-ex", "bt", (char *)NULL);
    _exit(9);
  }
  int status;
  waitpid(child, &status, 0);
  signal(nr, SIG_DFL);
}
int deep(int n, volatile int *p) { return n ? deep(n - 1, p) + 1 : (*p = 1); }
int main(void) {
  signal(SIGSEGV, report);
  return deep(3, NULL);
}
C
gcc -g -O0 -o a a.c
cat > faults.py <<'P'
import faulthandler, os, signal, subprocess, sys, threading, time
out = open("faults.txt", "w+")
faulthandler.register(signal.SIGUSR1, file=out, all_threads=True)
done = threading.Event()
threading.Thread(target=done.wait).start()
os.kill(os.getpid(), signal.SIGUSR1)
faulthandler.dump_traceback_later(0.1, file=out)
time.sleep(0.5)
faulthandler.cancel_dump_traceback_later()
done.set()
out.seek(0)
text = out.read()
print(text.count("hread 0x"), "Timeout" in text, flush=True)
for crash in ("sigsegv", "sigabrt", "sigfpe", "stack_overflow", "fatal_error_c_thread"):
    code = f"import faulthandler; faulthandler._{crash}()"
    child = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], stderr=subprocess.PIPE, text=True)
    print(crash, child.returncode, child.stderr.splitlines()[0], flush=True)
P
# record
ulimit -c 0
python3 faults.py
./a > a.txt 2>&1
echo "a gave $?"
# check
grep -q '^4 True$' "$OUT"
grep -q '^sigsegv -11 ' "$OUT"
grep -q '^fatal_error_c_thread -6 ' "$OUT"
grep -q '^a gave 139$' "$OUT"
grep -q ' in deep (n=3, ' a.txt
grep -q ' in main () at a.c' a.txt
