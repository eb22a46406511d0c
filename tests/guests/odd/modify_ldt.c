// Segments of a program's own: there are, or they are refused as where the kernel has none (ENOSYS), read or written.
#include "../guest.h"

#include <asm/ldt.h>

int main(void) {
  char table[64];
  struct user_desc desc = {.entry_number = 1, .base_addr = 0, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1};
  long got = syscall(SYS_modify_ldt, 0, table, sizeof table);
  CHECK(got == 0 || (got == -1 && errno == ENOSYS));
  errno = 0;
  long set = syscall(SYS_modify_ldt, 1, &desc, sizeof desc);
  // The kernel gives back 32 bits of an int.
  CHECK((int)set == 0 || (errno == ENOSYS || (int)set == -ENOSYS));
  CHECK((got == 0) == ((int)set == 0));
  return guest_ok();
}
