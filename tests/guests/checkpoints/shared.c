// Shared memory that no other process maps comes back: anonymous, of a memfd, of a System V segment, also where it may only be
// read, or was written to by a call; anonymous memory also where it was unmapped since. What was mapped since is unmapped.
#define _GNU_SOURCE
#include "checkpoints.h"
#include <sys/ipc.h>
#include <sys/shm.h>

#define LEN (64 << 12)

static volatile int *map(int fd, int prot, size_t len) {
  volatile int *memory = mmap(NULL, len, prot, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

int main(void) {
  needs_bis();
  int rw = PROT_READ | PROT_WRITE;
  volatile int *own = map(-1, rw, LEN), *lost = map(-1, rw, 3 * 4096), *outside = stays();
  // Much of it was never touched.
  volatile int *sparse = map(-1, rw, 32 << 20);
  int fd = memfd_create("shared", 0);
  CHECK(fd >= 0 && ftruncate(fd, LEN) == 0);
  volatile int *of_file = map(fd, rw, LEN), *read_only = map(fd, PROT_READ, LEN);
  int segment = shmget(IPC_PRIVATE, LEN, 0600 | IPC_CREAT);
  CHECK(segment >= 0);
  volatile int *attached = shmat(segment, NULL, 0);
  CHECK(attached != (void *)-1 && shmctl(segment, IPC_RMID, NULL) == 0);
  for (int i = 0; i < LEN / 4; i += 512) own[i] = of_file[i] = attached[i] = i;
  lost[1024] = 77;
  sparse[10 << 20 >> 2] = 5;
  CHECK(mprotect((void *)lost, 4096, PROT_READ) == 0);
  bis_handle handle;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0 && *outside == times);
  printf("%d\n", times);
  for (int i = 0; i < LEN / 4; i++) {
    int then = i % 512 ? 0 : i;
    CHECK(own[i] == then && of_file[i] == then && read_only[i] == then && attached[i] == then);
  }
  CHECK(lost[1024] == 77 && lost[0] == 0 && sparse[10 << 20 >> 2] == 5 && sparse[20 << 20 >> 2] == 0);
  ++*outside;
  for (int i = 0; i < LEN / 4; i += 300) own[i] = attached[i] = -i - 1;
  int written = 4711;
  CHECK(pwrite(fd, &written, sizeof written, 8 << 12) == sizeof written && read_only[8 << 10] == 4711);
  of_file[9 << 10] = 4712;
  sparse[10 << 20 >> 2] = 6, sparse[20 << 20 >> 2] = 7;
  static volatile int *newer;
  CHECK(newer == NULL);
  newer = map(-1, rw, 4096);
  *newer = 5;
  if (times == 1) CHECK(mprotect((void *)own, LEN, PROT_READ) == 0);
  if (times == 2) CHECK(munmap((void *)lost, 3 * 4096) == 0 && munmap((void *)sparse, 32 << 20) == 0);
  if (times == 4) CHECK(munmap((void *)own, 4096) == 0);
  if (times == 3) {
    CHECK(mprotect((void *)lost, 3 * 4096, rw) == 0);
    lost[1024] = 1;
  }
  if (times < 5) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  // What has a descriptor is another matter.
  CHECK(munmap((void *)of_file, 4096) == 0);
  CHECK(bis_rollback(handle, BIS_RETRY) == -EOPNOTSUPP);
  CHECK(*newer == 5 && *outside == 6 && bis_discard(handle) == 0);
  return guest_ok();
}
