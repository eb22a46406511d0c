#!/bin/bash
# Programs of musl, dynamic and static, with threads.
# needs: musl-gcc
# package: musl
# setup
cat > a.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *f(void *x) { long s = 0; for (long i = 0; i < 100000; i++) s += i ^ (long)x; return (void *)s; }
int main(void) {
  pthread_t t[4]; void *r;
  for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, f, (void *)i);
  for (int i = 0; i < 4; i++) { pthread_join(t[i], &r); printf("%ld\n", (long)r); }
  fflush(stdout);
  int s; if (!fork()) { char *p = malloc(100000); puts("child"); free(p); exit(3); }
  wait(&s); printf("%d\n", WEXITSTATUS(s)); FILE *g = popen("echo popen", "r"); char b[99]; puts(fgets(b, 99, g)); pclose(g);
  return 0;
}
END
musl-gcc -o dyn a.c && musl-gcc -static -o stat a.c
# record
./dyn && ./stat
# check
test "$(grep -c popen "$OUT")" = 2
