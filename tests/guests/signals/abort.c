// status: 134
// abort() in a thread while others wait.
#include "../guest.h"

static void *waits(void *arg) {
  (void)arg;
  pause();
  return NULL;
}

static void *aborts(void *arg) {
  (void)arg;
  guest_ok();
  abort();
  return NULL;
}

int main(void) {
  start_thread(waits, NULL);
  join_thread(start_thread(aborts, NULL));
  return 1;
}
