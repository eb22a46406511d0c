// A name leads to a file that nobody maps, and to one that is mapped, by turns, while it is opened and cut again and again: a
// mapped file that is cut under another's name is missed by nobody, even if the name changed right before.
#include "../guest.h"
#include <setjmp.h>

enum { ROUNDS = 1500 };
static sigjmp_buf lost;
static void handler(int sig) { siglongjmp(lost, sig); }

static void put(const char *name) {
  int fd = open(name, O_RDWR | O_CREAT, 0600);
  CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0 && close(fd) == 0);
}

static void rename_over(const char *from) {
  CHECK(link(from, "next") == 0 && rename("next", "name") == 0);
  // Where both were the same file already, it is still there.
  unlink("next");
}

static void rename_them(void) {
  for (;;) rename_over("mapped"), rename_over("plain");
}

static void cut_it(int flags) {
  // Whoever has it mapped, too, would wait for its turn.
  pid_t pid = fork();
  if (pid == 0) rename_them();
  int fd = open("mapped", O_RDWR);
  volatile char *shown = mmap(NULL, PAGE, PROT_READ, flags, fd, 0);
  CHECK(shown != MAP_FAILED);
  volatile long cuts = 0, sum = 0;
  for (volatile int i = 0; i < ROUNDS; i++) {
    int cut = open("name", O_WRONLY | O_TRUNC);
    CHECK(cut >= 0 && close(cut) == 0);
    if (sigsetjmp(lost, 0) == 0) {
      sum += shown[0];
    } else {
      cuts++;
      CHECK(ftruncate(fd, PAGE) == 0 && pwrite(fd, "x", 1, 0) == 1);
    }
  }
  CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
  CHECK(munmap((void *)shown, PAGE) == 0 && close(fd) == 0);
  printf("%ld cuts, %ld read\n", cuts, sum);
}

int main(void) {
  put("mapped"), put("plain");
  CHECK(link("plain", "name") == 0);
  on_signal(SIGBUS, handler, SA_NODEFER);
  cut_it(MAP_SHARED);
  unlink("next");
  cut_it(MAP_PRIVATE);
  return guest_ok();
}
