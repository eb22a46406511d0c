// unstopped: execve
// A program is looked for along a path, as compilers and shells do it, in a child of vfork and without: execs of what is not there
// change nothing. One of them makes it appear on the way.
#include "../guest.h"

#include <spawn.h>
#include <sys/stat.h>

extern char **environ;

static char *args[] = {"true", NULL};

static pid_t spawn(const char *name) {
  pid_t pid;
  errno = posix_spawnp(&pid, name, NULL, NULL, args, environ);
  return errno ? -1 : pid;
}

int main(void) {
  CHECK(mkdir("a", 0755) == 0 && mkdir("b", 0755) == 0 && mkdir("c", 0755) == 0);
  CHECK(symlink("gone", "dangling") == 0);
  make_file("file", "text", 4);
  setenv("PATH", "/nonexistent:a:b:c:dangling:/usr/bin:/bin", 1);
  for (int round = 0; round < 100; round++) {
    CHECK_ERRNO(execvp("absent", args), ENOENT);
    CHECK_ERRNO(execv("", args), ENOENT);
    CHECK_ERRNO(execv("dangling", args), ENOENT);
    CHECK_ERRNO(execv("a/../b/../none/x", args), ENOENT);
    CHECK(spawn("absent") == -1 && errno == ENOENT);
    if (round % 10 == 0) check_exited(spawn("true"), 0);
  }
  CHECK_ERRNO(execv("/proc/self/none", args), ENOENT);
  // These are there, or something is in the way.
  CHECK_ERRNO(execv("file", args), EACCES);
  CHECK_ERRNO(execv("file/x", args), ENOTDIR);
  CHECK_ERRNO(execv("a", args), EACCES);
  CHECK_ERRNO(execv((char *)1, args), EFAULT);
  char *name = malloc(PATH_MAX + 1);
  memset(name, 'x', PATH_MAX), name[PATH_MAX] = 0;
  CHECK_ERRNO(execv(name, args), ENAMETOOLONG);
  free(name);

  CHECK(spawn("here") == -1 && errno == ENOENT);
  CHECK(symlink("/bin/true", "b/here") == 0);
  check_exited(spawn("here"), 0);
  CHECK(rename("b/here", "c/here") == 0);
  check_exited(spawn("here"), 0);
  CHECK(unlink("c/here") == 0);
  CHECK(spawn("here") == -1 && errno == ENOENT);
  return guest_ok();
}
