// An archive that two processes have mapped shared for reading only, as compilers have those of packages: both see what
// calls do to it, and so does one that a fork has made.
#include "../guest.h"

#define LEN (3 * PAGE)

static int to[2], back[2];

static void step(void) {
  char c;
  CHECK(write(to[1], "g", 1) == 1 && read(back[0], &c, 1) == 1);
}

static void done(void) {
  char c;
  CHECK(write(back[1], "d", 1) == 1 && read(to[0], &c, 1) == 1);
}

static volatile char *map_it(void) {
  int fd = open("f.a", O_RDONLY);
  volatile char *m = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(m != MAP_FAILED && close(fd) == 0 && memcmp((void *)m, "!<arch>\noooo", 12) == 0);
  return m;
}

int main(void) {
  char c;
  static char text[LEN];
  memset(text, 'o', LEN);
  memcpy(text, "!<arch>\n", 8);
  make_file("f.a", text, LEN);
  CHECK(pipe(to) == 0 && pipe(back) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    volatile char *m = map_it();
    int fd = open("f.a", O_RDWR);
    CHECK(read(to[0], &c, 1) == 1);
    CHECK(pwrite(fd, "one", 3, 100) == 3 && memcmp((void *)(m + 100), "oneo", 4) == 0);
    done();
    CHECK(lseek(fd, PAGE, SEEK_SET) == PAGE && write(fd, "two", 3) == 3 && memcmp((void *)(m + PAGE), "twoo", 4) == 0);
    done();
    CHECK(ftruncate(fd, PAGE + 1) == 0 && ftruncate(fd, LEN) == 0 && m[PAGE] == 't' && m[PAGE + 1] == 0);
    done();
    // A private mapping beside it.
    char *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(own != MAP_FAILED && strcpy(own, "mine") && m[0] == '!');
    CHECK(write(back[1], "d", 1) == 1);
    _exit(0);
  }
  void *room = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  volatile char *m = map_it();
  // It cannot become writable.
  CHECK_ERRNO(mprotect((void *)m, LEN, PROT_READ | PROT_WRITE), EACCES);
  step();
  CHECK(memcmp((void *)(m + 100), "oneo", 4) == 0);
  step();
  CHECK(memcmp((void *)(m + PAGE), "twoo", 4) == 0);
  pid_t second = fork();
  if (second == 0) {
    CHECK(memcmp((void *)(m + PAGE), "twoo", 4) == 0);
    step();
    CHECK(m[PAGE] == 't' && m[PAGE + 1] == 0 && m[2 * PAGE] == 0);
    _exit(3);
  }
  check_exited(second, 3);
  CHECK(m[PAGE] == 't' && m[PAGE + 1] == 0 && m[2 * PAGE] == 0);
  step();
  check_exited(pid, 0);
  volatile char *moved = mremap((void *)m, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, room);
  CHECK(moved == room && memcmp((void *)(moved + 100), "oneo", 4) == 0);
  CHECK(munmap((void *)moved, LEN) == 0);
  // Nobody has it mapped now: who maps it to write shares it with others as ever.
  int fd = open("f.a", O_RDWR);
  char *shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(shared != MAP_FAILED);
  second = fork();
  if (second == 0) {
    volatile char *again = mmap(NULL, LEN, PROT_READ, MAP_SHARED, open("f.a", O_RDONLY), 0);
    strcpy(shared + 200, "stored");
    CHECK(strcmp((char *)again + 200, "stored") == 0);
    _exit(4);
  }
  check_exited(second, 4);
  CHECK(strcmp(shared + 200, "stored") == 0);
  printf("%d %p %llx\n", pid, (void *)shared, (unsigned long long)digest(shared, LEN));
  return guest_ok();
}
