// Exit codes 0 to 255, by _exit, exit, return from main of a child and exit_group; atexit handlers run in order.
#include "../guest.h"

static int order[2];
static void first(void) { CHECK(write(order[1], "1", 1) == 1); }
static void second(void) { CHECK(write(order[1], "2", 1) == 1); }

int main(void) {
  int codes[] = {0, 1, 2, 42, 126, 127, 128, 137, 254, 255, 256, -1, 511};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    pid_t p = fork();
    if (p == 0) {
      if (i % 2) syscall(SYS_exit_group, codes[i]);
      _exit(codes[i]);
    }
    check_exited(p, codes[i] & 255);
  }
  CHECK(pipe(order) == 0);
  pid_t p = fork();
  if (p == 0) {
    atexit(first), atexit(second);
    exit(7);
  }
  check_exited(p, 7);
  char text[3] = "";
  CHECK(read(order[0], text, 2) == 2 && strcmp(text, "21") == 0);
  printf("last was %d\n", p);
  return guest_ok();
}
