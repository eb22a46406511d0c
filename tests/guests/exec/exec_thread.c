// exec by a thread that is not the leader, while others block: the pid stays, all other threads are gone.
#include "../guest.h"
#include <dirent.h>

static char *self;
static char pid_text[16];

static void *blocks(void *arg) {
  (void)arg;
  pause();
  return NULL;
}

static void *execs(void *arg) {
  (void)arg;
  usleep(2000);
  printf("%d of %d calls exec\n", tid_self(), getpid());
  execl("/proc/self/exe", self, pid_text, NULL);
  CHECK(!"exec came back");
  return NULL;
}

int main(int argc, char **argv) {
  if (argc > 1) {
    CHECK(atoi(argv[1]) == getpid() && tid_self() == getpid());
    DIR *d = opendir("/proc/self/task");
    int threads = 0;
    struct dirent *e;
    while ((e = readdir(d))) threads += e->d_name[0] != '.';
    CHECK(threads == 1);
    return guest_ok();
  }
  self = argv[0];
  snprintf(pid_text, sizeof pid_text, "%d", getpid());
  for (int i = 0; i < 3; i++) start_thread(blocks, NULL);
  start_thread(execs, NULL);
  pause();
}
