// The main thread leaves by pthread_exit; the process goes on, and its status is the last thread's exit().
#include "../guest.h"

static pthread_t main_thread;

static void *body(void *arg) {
  (void)arg;
  CHECK(pthread_join(main_thread, NULL) == 0);
  char line[256] = "";
  int fd = open("/proc/self/status", O_RDONLY);
  CHECK(fd >= 0 && read(fd, line, 255) > 0);
  printf("main is gone, %d lives in %d\n", tid_self(), getpid());
  exit(guest_ok());
}

int main(void) {
  main_thread = pthread_self();
  CHECK(pthread_detach(start_thread(body, NULL)) == 0);
  pthread_exit(NULL);
}
