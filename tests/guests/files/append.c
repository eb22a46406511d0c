// O_APPEND: two descriptors and a child all append, and nothing is overwritten.
#include "../guest.h"

int main(void) {
  int a = open("log", O_CREAT | O_WRONLY | O_APPEND, 0600), b = open("log", O_WRONLY | O_APPEND);
  CHECK(a >= 0 && b >= 0);
  CHECK(write(a, "one ", 4) == 4);
  CHECK(write(b, "two ", 4) == 4);
  CHECK(lseek(a, 0, SEEK_SET) == 0);
  CHECK(write(a, "three ", 6) == 6);
  CHECK(lseek(a, 0, SEEK_CUR) == 14);
  pid_t child = fork();
  if (child == 0) {
    CHECK(write(b, "four", 4) == 4);
    _exit(0);
  }
  check_exited(child, 0);
  CHECK(fcntl(a, F_GETFL) & O_APPEND);
  char text[64] = "";
  int r = open("log", O_RDONLY);
  CHECK(read(r, text, sizeof text - 1) == 18);
  CHECK(strcmp(text, "one two three four") == 0);
  // pwrite on an O_APPEND descriptor appends too (as Linux has it).
  CHECK(pwrite(a, "!", 1, 0) == 1);
  struct stat st;
  CHECK(fstat(a, &st) == 0 && st.st_size == 19);
  printf("inode %lu, by %d\n", (unsigned long)st.st_ino, child);
  return guest_ok();
}
