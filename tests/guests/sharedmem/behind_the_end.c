// What is stored through a shared mapping behind the end of a file, in its last page, is seen by whoever maps the file later, shared or
// privately (libfaketime keeps its own there).
#include "../guest.h"

static void look(int kind) {
  int file = open("file", O_RDWR);
  CHECK(file >= 0);
  char *m = mmap(NULL, 80, PROT_READ | PROT_WRITE, kind, file, 0);
  CHECK(m != MAP_FAILED && close(file) == 0);
  printf("kind %d: %.8s %.10s %.6s\n", kind, m, m + 40, m + PAGE - 8);
  CHECK(memcmp(m, "abcdefgh", 8) == 0 && memcmp(m + 40, "behind", 7) == 0 && memcmp(m + PAGE - 8, "last", 5) == 0);
  CHECK(munmap(m, 80) == 0);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    look(MAP_SHARED);
    look(MAP_PRIVATE);
    return 0;
  }
  int file = open("file", O_RDWR | O_CREAT | O_EXCL, 0600);
  CHECK(file >= 0 && ftruncate(file, 8) == 0);
  char *m = mmap(NULL, 80, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(m != MAP_FAILED);
  memcpy(m, "abcdefgh", 8);
  strcpy(m + 40, "behind");
  strcpy(m + PAGE - 8, "last");
  look(MAP_PRIVATE);
  CHECK(munmap(m, 80) == 0);
  look(MAP_SHARED);
  look(MAP_PRIVATE);
  for (int round = 0; round < 2; round++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      if (round) execl("/proc/self/exe", argv[0], "look", NULL);
      look(MAP_SHARED);
      look(MAP_PRIVATE);
      _exit(0);
    }
    check_exited(child, 0);
  }
  char text[16] = "";
  CHECK(pread(file, text, sizeof text, 0) == 8 && memcmp(text, "abcdefgh", 9) == 0);
  CHECK(close(file) == 0);
  return guest_ok();
}
