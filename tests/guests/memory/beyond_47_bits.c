// Who asks for memory beyond 47 bits of address gets it where page tables have five levels, and elsewhere lower down. It is
// memory as any other: written, protected, moved, inherited, given back.
#include "../guest.h"

int main(void) {
  char *wanted = (char *)(1L << 47) + (1L << 30);
  char *m = mmap(wanted, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(m != MAP_FAILED);
  bool is_high = (uintptr_t)m >> 47 != 0;
  for (int i = 0; i < 4; i++) m[i * PAGE] = 'a' + i;
  CHECK(mprotect(m + PAGE, PAGE, PROT_READ) == 0);
  CHECK(munmap(m + 2 * PAGE, PAGE) == 0);
  CHECK(madvise(m + 3 * PAGE, PAGE, MADV_DONTNEED) == 0 && m[3 * PAGE] == 0);
  // Calls write there, and read from there.
  int ends[2];
  CHECK(pipe(ends) == 0 && write(ends[1], m + PAGE, 1) == 1 && read(ends[0], m, 1) == 1 && m[0] == 'b');
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    m[0] = 'c';
    _exit(m[0] == 'c' && m[PAGE] == 'b' ? 7 : 1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7 && m[0] == 'b');
  char *shared = mmap(wanted + (1L << 30), PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  shared[5] = 5;
  char *moved = mremap(m, PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, m + 16 * PAGE);
  CHECK(moved == m + 16 * PAGE && moved[0] == 'b' && moved[PAGE] == 0);
  CHECK(munmap(moved, 2 * PAGE) == 0 && munmap(shared, PAGE) == 0);
  // With four levels nothing can be there, and nothing has changed.
  char *fixed = mmap(wanted, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CHECK(is_high ? fixed == wanted && fixed[0] == 0 : fixed == MAP_FAILED && errno == ENOMEM);
  char *low = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(low != MAP_FAILED);
  low[0] = 'l';
  if (!is_high) CHECK_ERRNO((long)mremap(low, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, wanted), EINVAL);
  CHECK(low[0] == 'l');
  printf("%s\n", is_high ? "beyond" : "this machine has four levels");
  return guest_ok();
}
