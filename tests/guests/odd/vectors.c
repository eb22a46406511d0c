// cflags: -mno-avx
// Wide registers (SSE always, AVX when there) keep their values over calls, thread switches and signals.
#include "../guest.h"
#include <immintrin.h>

static void handler(int sig) {
  (void)sig;
  __asm__ volatile("pxor %%xmm9, %%xmm9\n pxor %%xmm15, %%xmm15" ::: "xmm9", "xmm15");
}

__attribute__((target("avx"))) static void avx(uint64_t seed) {
  uint64_t in[4] = {seed, seed * 3, seed * 5, seed * 7}, out[4];
  for (int i = 0; i < 20; i++) {
    __asm__ volatile("vmovdqu %1, %%ymm9\n movl $24, %%eax\n syscall\n movl $39, %%eax\n syscall\n vmovdqu %%ymm9, %0"
                     : "=m"(out)
                     : "m"(in)
                     : "rax", "rcx", "r11", "xmm9", "memory");
    CHECK(memcmp(in, out, sizeof in) == 0);
  }
}

static void *body(void *arg) {
  uint64_t seed = (uint64_t)(long)arg, in[2] = {seed * 1234567, ~seed}, out[2];
  for (int i = 0; i < 50; i++) {
    __asm__ volatile("movdqu %1, %%xmm15\n movl $24, %%eax\n syscall\n movdqu %%xmm15, %0"
                     : "=m"(out)
                     : "m"(in)
                     : "rax", "rcx", "r11", "xmm15", "memory");
    CHECK(memcmp(in, out, sizeof in) == 0);
    if (i % 10 == 0) raise(SIGUSR1);
  }
  if (__builtin_cpu_supports("avx")) avx(seed + 77);
  // Rounding mode and x87 control word are per thread, too.
  CHECK(_MM_GET_ROUNDING_MODE() == _MM_ROUND_NEAREST);
  _MM_SET_ROUNDING_MODE(seed % 2 ? _MM_ROUND_UP : _MM_ROUND_DOWN);
  sched_yield();
  CHECK(_MM_GET_ROUNDING_MODE() == (seed % 2 ? _MM_ROUND_UP : _MM_ROUND_DOWN));
  return NULL;
}

int main(void) {
  on_signal(SIGUSR1, handler, 0);
  pthread_t t[4];
  for (long i = 0; i < 4; i++) t[i] = start_thread(body, (void *)(i + 1));
  for (int i = 0; i < 4; i++) join_thread(t[i]);
  pid_t p = fork();
  if (p == 0) {
    body((void *)9);
    _exit(0);
  }
  check_exited(p, 0);
  printf("avx %d, %d\n", __builtin_cpu_supports("avx") != 0, p);
  return guest_ok();
}
