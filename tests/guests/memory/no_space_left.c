// Pages that a process cannot have, though they are within their file: on a file system that is full, and huge ones that the
// machine has not. SIGBUS then, at the first touch; what was there before can be used on, and so can all when there is room again.
// unsummed: checksums read all memory that is shared, for which the file system finds room
#include "../guest.h"

#include <setjmp.h>
#include <sys/mount.h>

enum { PAGES = 8, HUGE_PAGE = 2 << 20 };

static sigjmp_buf out;
static void *volatile fault_addr;
static volatile int code;

static void on_bus(int sig, siginfo_t *info, void *ctx) {
  (void)sig;
  (void)ctx;
  fault_addr = info->si_addr;
  code = info->si_code;
  siglongjmp(out, 1);
}

// How many pages can be written to, from this one on: all by the same instruction.
__attribute__((noinline)) static int written(volatile char *at, int pages) {
  static volatile int i;
  if (sigsetjmp(out, 1)) return i;
  for (i = 0; i < pages; i++) at[(size_t)i * PAGE + 7] = 'w';
  return i;
}

__attribute__((noinline)) static int can_be_read(volatile char *at) {
  if (sigsetjmp(out, 1)) return 0;
  return at[0] == 0 || at[0] == 'w';
}

int main(void) {
  struct sigaction sa = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGBUS, &sa, NULL) == 0);

  void *huge = mmap(NULL, HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
  if (huge != MAP_FAILED) {
    int had = written((char *)huge + 2 * PAGE, 1);
    if (!had) CHECK((char *)fault_addr >= (char *)huge && (char *)fault_addr < (char *)huge + HUGE_PAGE && code == BUS_ADRERR);
    printf("huge: %d\n", had);
  }

  if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) || mkdir("full", 0700) ||
      mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("none", "full", "tmpfs", 0, "size=32k")) {
    puts("no file system of its own");
    return guest_ok();
  }
  int fill = open("full/fill", O_CREAT | O_RDWR, 0600), fd = open("full/sparse", O_CREAT | O_RDWR, 0600);
  CHECK(fill >= 0 && fd >= 0 && ftruncate(fd, PAGES * PAGE) == 0);
  char *shared = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(shared != MAP_FAILED);
  CHECK(written(shared, 2) == 2);
  char block[PAGE];
  memset(block, 'f', sizeof block);
  int blocks = 0;
  while (write(fill, block, sizeof block) == sizeof block) blocks++;
  CHECK(errno == ENOSPC);
  // Two pages are there, the third is not; nor can it be read, on this file system.
  int had = written(shared, PAGES);
  CHECK(had == 2 && (char *)fault_addr == shared + 2 * PAGE + 7 && code == BUS_ADRERR);
  CHECK(!can_be_read(shared + 5 * PAGE) && (char *)fault_addr == shared + 5 * PAGE);
  CHECK(can_be_read(shared + PAGE));
  // A copy of its own has the same holes.
  char *own = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  CHECK(own != MAP_FAILED && can_be_read(own) && !can_be_read(own + 3 * PAGE));
  CHECK(ftruncate(fill, 0) == 0);
  CHECK(written(shared, PAGES) == PAGES && can_be_read(own + 3 * PAGE));
  printf("full after %d blocks, then %d pages, %d\n", blocks, had, shared[5 * PAGE + 7]);
  CHECK(umount("full") == -1 && umount2("full", MNT_DETACH) == 0 && rmdir("full") == 0);
  return guest_ok();
}
