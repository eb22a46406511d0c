// cflags: -static-pie -fPIE
// A static position-independent binary, which relocates itself; it execs itself once.
#include "../guest.h"

int main(int argc, char **argv) {
  static int *pointer = &optind;
  CHECK(pointer == &optind);
  printf("main at %p\n", (void *)main);
  if (argc == 1) {
    execl("/proc/self/exe", argv[0], "x", NULL);
    CHECK(!"exec came back");
  }
  return guest_ok();
}
