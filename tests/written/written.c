// Goes back to a checkpoint behind which it has written to a file, or has not, as it is told:
// written FILE HOW...
#include "../../include/bis.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGES 4
#define PAGE 4096

static int fd;
static char *memory;
static volatile char seen;

static void act(const char *how) {
  if (strcmp(how, "map") == 0) {
    memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) exit(1);
  } else if (strcmp(how, "close") == 0) {
    close(fd);
  } else if (strcmp(how, "read") == 0) {
    for (int page = 0; page < PAGES; page++) seen += memory[page * PAGE];
  } else if (strcmp(how, "first") == 0) {
    memory[17]++;
  } else if (strcmp(how, "last") == 0) {
    memory[(PAGES - 1) * PAGE]++;
  } else if (strcmp(how, "flush") == 0) {
    if (msync(memory, PAGES * PAGE, MS_SYNC) != 0) exit(1);
  } else if (strcmp(how, "call") == 0) {
    if (pwrite(fd, "written", 7, PAGE) != 7) exit(1);
  } else {
    exit(2);
  }
}

// When the file was written to, as the kernel tells it.
static struct timespec written(void) {
  struct stat is;
  if (fstat(fd, &is) != 0) return (struct timespec){0};
  return is.st_mtim;
}

// Before the checkpoint up to a "-", behind it three times what follows.
int main(int argc, char **argv) {
  fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || ftruncate(fd, PAGES * PAGE) != 0) return 1;
  int at = 2;
  for (; at < argc && strcmp(argv[at], "-") != 0; at++) act(argv[at]);
  const struct timespec then = written();
  bis_handle before;
  int times = bis_checkpoint(&before);
  if (times < 0) return 3;
  for (at++; at < argc; at++) act(argv[at]);
  // In front of the second way back: has the file another time? A store to a page changes it only if the page was clean.
  const struct timespec now = written();
  if (times == 1 && (now.tv_sec != then.tv_sec || now.tv_nsec != then.tv_nsec)) {
    printf("dated\n");
    fflush(stdout);
  }
  if (times < 2) bis_rollback(before, BIS_RETRY);
  printf("%d\n", times);
  return 0;
}
