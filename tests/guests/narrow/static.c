// cflags: -m32 -static
// needs: /usr/lib32/libc.a
// A program without a loader: it makes the first calls itself, and its TLS without the loader's help.
#include "../guest.h"

static __thread int own = 3;

static void *body(void *arg) {
  own += *(int *)arg;
  return (void *)(intptr_t)own;
}

int main(void) {
  int number = 4;
  CHECK((intptr_t)join_thread(start_thread(body, &number)) == 7 && own == 3);
  make_file("file", "content", 7);
  struct stat st;
  CHECK(stat("file", &st) == 0 && st.st_size == 7);
  char *lines = NULL;
  size_t len = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps);
  int count = 0;
  while (getline(&lines, &len, maps) > 0) count++;
  CHECK(count > 5 && fclose(maps) == 0);
  pid_t child = fork();
  if (child == 0) _exit(own);
  check_exited(child, 3);
  puts("static");
  return guest_ok();
}
