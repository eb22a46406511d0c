// cflags: -pthread
// Another process reads in /proc/PID/maps which files a program with threads has mapped, before and after it has them: its
// own and the libraries, of which each address shows what the file has there, and no others.
#include "../guest.h"
#include <pthread.h>

static void *waits(void *arg) {
  char byte;
  CHECK(read(*(int *)arg, &byte, 1) == 0);
  return arg;
}

// All mappings with text that another process has, and what of files it must have once.
static void look(pid_t pid, const char *own) {
  char path[64], line[4200], name[4096];
  snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
  FILE *maps = fopen(path, "r");
  CHECK(maps != NULL);
  int programs = 0, libraries = 0;
  while (fgets(line, sizeof line, maps)) {
    unsigned long from, to, offset, inode;
    char prot[5];
    name[0] = 0;
    CHECK(sscanf(line, "%lx-%lx %4s %lx %*s %lu %4095s", &from, &to, prot, &offset, &inode, name) >= 5);
    if (prot[2] != 'x' || name[0] == '[') continue;
    if (strcmp(name, own) == 0) programs++;
    else if (strstr(name, "/libc.so.6")) libraries++;
    else if (!strstr(name, "/ld-linux-x86-64.so.2")) CHECK(!"text of another file");
    struct stat file;
    CHECK(stat(name, &file) == 0 && file.st_ino == inode);
    // What the process has there is what the file has, as a debugger reads both.
    char theirs[64], files[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    int memory = open(path, O_RDONLY), fd = open(name, O_RDONLY);
    CHECK(memory >= 0 && fd >= 0);
    ssize_t len = pread(fd, files, sizeof files, (off_t)offset);
    CHECK(len == sizeof files && pread(memory, theirs, sizeof theirs, (off_t)from) == len);
    CHECK(memcmp(theirs, files, 4) == 0);
    CHECK(close(memory) == 0 && close(fd) == 0);
  }
  CHECK(fclose(maps) == 0);
  CHECK(programs == 1 && libraries == 1);
}

int main(void) {
  char own[4096] = "";
  CHECK(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
  int hold[2], say[2], go[2];
  CHECK(pipe(hold) == 0 && pipe(say) == 0 && pipe(go) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    CHECK(close(hold[1]) == 0 && close(go[1]) == 0);
    char byte;
    CHECK(write(say[1], "1", 1) == 1 && read(go[0], &byte, 1) == 1);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, waits, &hold[0]) == 0);
    CHECK(write(say[1], "2", 1) == 1 && read(go[0], &byte, 1) == 1);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    _exit(0);
  }
  CHECK(close(hold[0]) == 0);
  char byte;
  CHECK(read(say[0], &byte, 1) == 1);
  look(pid, own);
  CHECK(write(go[1], "g", 1) == 1 && read(say[0], &byte, 1) == 1);
  look(pid, own);
  CHECK(close(hold[1]) == 0 && write(go[1], "g", 1) == 1);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  return guest_ok();
}
