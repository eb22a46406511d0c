// Memory that a fork would not have, or have empty, comes back with a checkpoint all the same.
#include "checkpoints.h"

int main(void) {
  needs_bis();
  char *absent = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *wiped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(absent != MAP_FAILED && wiped != MAP_FAILED);
  CHECK(madvise(absent, 8192, MADV_DONTFORK) == 0 && madvise(wiped, 8192, MADV_WIPEONFORK) == 0);
  strcpy(absent + 4096, "absent");
  strcpy(wiped + 4096, "wiped");
  bis_handle handle;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0);
  printf("%d: %s %s\n", times, absent + 4096, wiped + 4096);
  CHECK(strcmp(absent + 4096, "absent") == 0 && strcmp(wiped + 4096, "wiped") == 0);
  strcpy(absent + 4096, "other");
  strcpy(wiped + 4096, "other");
  if (times < 2) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  // It is as advised in forks.
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    unsigned char there;
    _exit(wiped[4096] == 0 && mincore(absent, 4096, &there) == -1 ? 7 : 1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  return guest_ok();
}
