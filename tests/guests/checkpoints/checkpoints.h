// What the guests about checkpoints share.
#include "../../../include/bis.h"
#include "../guest.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
