// status: 143
// Ends by a signal of its own: the exit status must say so.
#include "../guest.h"

int main(void) {
  printf("%d ends by SIGTERM\n", getpid());
  guest_ok();
  kill(getpid(), SIGTERM);
  return 1;
}
