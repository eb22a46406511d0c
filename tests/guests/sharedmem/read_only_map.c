// A reader maps a file through a descriptor that is only for reading, and sees what others do to it: write, pwrite,
// ftruncate, stores through another mapping in another process, and its own writes through another descriptor.
#include "../guest.h"

static int to[2], back[2];

static void step(void) {
  char c;
  CHECK(write(to[1], "g", 1) == 1 && read(back[0], &c, 1) == 1);
}

static void done(void) {
  char c;
  CHECK(write(back[1], "d", 1) == 1 && read(to[0], &c, 1) == 1);
}

int main(void) {
  char c, text[PAGE];
  memset(text, 'o', PAGE);
  make_file("f", text, PAGE);
  CHECK(pipe(to) == 0 && pipe(back) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open("f", O_RDWR);
    CHECK(read(to[0], &c, 1) == 1);
    CHECK(write(fd, "one", 3) == 3);
    done();
    CHECK(pwrite(fd, "two", 3, 100) == 3);
    done();
    CHECK(ftruncate(fd, 50) == 0 && ftruncate(fd, PAGE) == 0);
    done();
    char *mine = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mine != MAP_FAILED && memcmp(mine, "oneo", 4) == 0);
    strcpy(mine + 200, "stored");
    done();
    for (int i = 0; i < 100; i++) mine[300] = (char)i;
    CHECK(munmap(mine, PAGE) == 0);
    done();
    CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
    CHECK(write(back[1], "d", 1) == 1);
    _exit(0);
  }
  int fd = open("f", O_RDONLY), own = open("f", O_WRONLY);
  volatile char *m = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(m != MAP_FAILED && m[0] == 'o' && m[100] == 'o');
  // It cannot become writable.
  CHECK_ERRNO(mprotect((void *)m, PAGE, PROT_READ | PROT_WRITE), EACCES);
  step();
  CHECK(memcmp((void *)m, "oneo", 4) == 0);
  step();
  CHECK(memcmp((void *)(m + 100), "twoo", 4) == 0);
  step();
  CHECK(m[0] == 'o' && m[49] == 'o' && m[50] == 0 && m[100] == 0);
  step();
  CHECK(memcmp((void *)(m + 200), "stored", 7) == 0);
  step();
  CHECK(m[300] == 99);
  CHECK(pwrite(own, "mine", 4, 400) == 4 && memcmp((void *)(m + 400), "mine", 5) == 0);
  step();
  check_exited(pid, 0);
  CHECK(pwrite(own, "late", 4, 500) == 4 && memcmp((void *)(m + 500), "late", 5) == 0);
  printf("%d %p %llx\n", pid, (void *)m, (unsigned long long)digest((void *)m, PAGE));
  return guest_ok();
}
