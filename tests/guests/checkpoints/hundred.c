// A hundred checkpoints at a time, each with memory of its own, gone back to and discarded in any order; and what was discarded
// takes no memory any more: the process that held it is gone.
#include "checkpoints.h"
#include <dirent.h>

enum { COUNT = 100, PAGES = 10 };

// Processes that this one has made: by all that the machine has.
static int count_in_proc(void) {
  DIR *all = opendir("/proc");
  CHECK(all != NULL);
  int count = 0;
  for (struct dirent *one; (one = readdir(all)) != NULL;) {
    char name[300], text[512];
    snprintf(name, sizeof name, "/proc/%s/stat", one->d_name);
    int fd = one->d_name[0] >= '1' && one->d_name[0] <= '9' ? open(name, O_RDONLY) : -1;
    if (fd < 0) continue;
    ssize_t len = read(fd, text, sizeof text - 1);
    CHECK(close(fd) == 0);
    text[len > 0 ? len : 0] = 0;
    char *behind = strrchr(text, ')');
    int parent = 0;
    if (behind != NULL && sscanf(behind, ") %*c %d", &parent) == 1) count += parent == getpid();
  }
  CHECK(closedir(all) == 0);
  return count;
}

// The same, by the kernel's list where there is one: that of the machine may be long.
static int count_children(void) {
  char name[64], text[1024];
  snprintf(name, sizeof name, "/proc/self/task/%d/children", (int)getpid());
  int fd = open(name, O_RDONLY), count = 0;
  if (fd < 0) return count_in_proc();
  for (ssize_t len; (len = read(fd, text, sizeof text)) > 0;)
    for (ssize_t at = 0; at < len; at++) count += text[at] == ' ';
  CHECK(close(fd) == 0);
  return count;
}

int main(void) {
  needs_bis();
  static volatile int *outside;
  outside = stays();
  CHECK(count_children() == 0);
  static bis_handle handles[COUNT];
  static volatile char memory[COUNT][PAGES][4096];
  static volatile int made;
  for (made = 0; made < COUNT; made++) {
    volatile int number = made;
    int times = bis_checkpoint(&handles[number]);
    if (times < 0) printf("%d: %d\n", number, times);
    CHECK(times >= 0 && made == number);
    // What the later ones have is not there yet, and what the earlier ones have is.
    for (int i = 0; i < COUNT; i++) CHECK(memory[i][i % PAGES][7] == (i < number));
    if (outside[0] == 0) {
      for (int page = 0; page < PAGES; page++) memory[number][page][7] = 1;
      continue;
    }
    break;
  }
  // The handles of those that come after a checkpoint are not in its memory.
  volatile int *later = outside + 2;
  if (outside[0] == 0) {
    for (int i = 0; i < COUNT; i++) later[i] = (int)handles[i];
    printf("%d held\n", count_children());
    CHECK(count_children() == COUNT);
  }
  if (outside[0] < 20) {
    int next = outside[0]++ * 37 % COUNT;
    CHECK(bis_rollback((bis_handle)later[next], BIS_RETRY) == -1000);
  }
  for (int i = 0; i < COUNT; i++) {
    CHECK(bis_discard((bis_handle)later[i * 61 % COUNT]) == 0);
    if (i == COUNT / 2) CHECK(count_children() == COUNT - i - 1);
  }
  CHECK(count_children() == 0);
  return guest_ok();
}
