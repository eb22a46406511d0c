// With the personality READ_IMPLIES_EXEC, memory that can be read can be executed, though nobody says so.
#include "../guest.h"
#include <sys/personality.h>

typedef int function(void);

int main(void) {
  static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3}; // mov eax, 42; ret
  int before = personality(0xffffffff);
  CHECK(before >= 0 && !(before & READ_IMPLIES_EXEC));
  CHECK(personality(before | READ_IMPLIES_EXEC) == before);
  void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  memcpy(p, code, sizeof code);
  for (int i = 0; i < 3; i++) CHECK(((function *)p)() == 42);
  char *heap = sbrk(3 * PAGE);
  CHECK(heap != (void *)-1);
  memcpy(heap + PAGE, code, sizeof code);
  CHECK(((function *)(heap + PAGE))() == 42);
  pid_t child = fork();
  if (child == 0) {
    void *q = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(q != MAP_FAILED && mprotect(q, PAGE, PROT_READ | PROT_WRITE) == 0);
    memcpy(q, code, sizeof code);
    _exit(((function *)q)());
  }
  check_exited(child, 42);
  CHECK(personality(before) >= 0);
  printf("%p %p\n", p, heap);
  return guest_ok();
}
