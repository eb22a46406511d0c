// What the guests about checkpoints share.
#include "../../../include/bis.h"
#include "../guest.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A page of memory that ways back leave as it is: that of a file with a name, in the current folder.
__attribute__((unused)) static inline void *stays(void) {
  char name[32];
  snprintf(name, sizeof name, "stays-%d", (int)getpid());
  int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
  void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(memory != MAP_FAILED && close(fd) == 0);
  return memory;
}

// Where the program does not run under bis, there are no checkpoints, and that is all there is to see.
static inline void needs_bis(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  bis_handle handle = 0;
  int result = bis_checkpoint(&handle);
  if (result == -ENOSYS) {
    CHECK(handle == 0 && bis_rollback(1, BIS_RETRY) == -ENOSYS && bis_discard(1) == -ENOSYS && bis_how(1) == -ENOSYS);
    exit(guest_ok());
  }
  CHECK(result == 0 && bis_discard(handle) == 0);
}
