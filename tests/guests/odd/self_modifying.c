// Code that is written and changed at run time, executed at each stage, with system calls inside it.
#include "../guest.h"

int main(void) {
  unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  // mov eax, 39 (getpid); syscall; add eax, imm8; ret
  memcpy(code, "\xb8\x27\x00\x00\x00\x0f\x05\x83\xc0\x00\xc3", 11);
  int (*call)(void) = (int (*)(void))code;
  for (int i = 0; i < 100; i++) {
    code[9] = (unsigned char)i;
    CHECK(call() == getpid() + i);
  }
  CHECK(mprotect(code, PAGE, PROT_READ | PROT_EXEC) == 0 && call() == getpid() + 99);
  // The same instruction at another place, then unmapped and mapped again with other code.
  unsigned char *moved = mremap(code, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
  CHECK(moved != MAP_FAILED && ((int (*)(void))moved)() == getpid() + 99);
  CHECK(munmap(moved, PAGE) == 0);
  CHECK(mmap(moved, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == moved);
  memcpy(moved, "\xb8\x6e\x00\x00\x00\x0f\x05\xc3", 8);  // getppid
  CHECK(((int (*)(void))moved)() == getppid());
  printf("%p %p\n", code, moved);
  return guest_ok();
}
