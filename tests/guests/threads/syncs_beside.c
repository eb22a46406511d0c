// A thread waits for the disk again and again (fsync and its kin), beside one that computes and one that passes bytes on. What was
// synced is there, and in what order the three come is the same in replay.
#include "../guest.h"

enum { TIMES = 40 };

static int file, pipes[2];
static volatile unsigned long computed;
static volatile int is_over;

static void *sync_all(void *arg) {
  char page[PAGE];
  for (int i = 0; i < TIMES; i++) {
    memset(page, i, sizeof page);
    CHECK(pwrite(file, page, sizeof page, (off_t)i * PAGE) == PAGE);
    switch (i % 4) {
    case 0:
      CHECK(fsync(file) == 0);
      break;
    case 1:
      CHECK(fdatasync(file) == 0);
      break;
    case 2:
      CHECK(sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) == 0);
      break;
    case 3:
      CHECK(fdatasync(-1) == -1 && errno == EBADF);
    }
    char told = (char)i;
    CHECK(write(pipes[1], &told, 1) == 1);
  }
  is_over = 1;
  return NULL;
}

static void *compute(void *arg) {
  while (!is_over) {
    computed++;
    if (computed % 100000 == 0) sched_yield();
  }
  return NULL;
}

int main(void) {
  char name[] = "syncs.XXXXXX";
  file = mkstemp(name);
  CHECK(file >= 0 && unlink(name) == 0 && pipe(pipes) == 0);
  pthread_t syncer = start_thread(sync_all, NULL), computer = start_thread(compute, NULL);
  for (int i = 0; i < TIMES; i++) {
    char told, byte;
    CHECK(read(pipes[0], &told, 1) == 1 && told == (char)i);
    CHECK(pread(file, &byte, 1, (off_t)i * PAGE) == 1 && byte == (char)i);
  }
  CHECK(pthread_join(syncer, NULL) == 0 && pthread_join(computer, NULL) == 0);
  printf("computed %lu\n", computed);
  // Alone, nobody waits for it: that is a hook's.
  CHECK(fsync(file) == 0);
  return guest_ok();
}
