// #! scripts: with an argument, through a second script, and by execvp from PATH.
#include "../guest.h"

static void script(const char *name, const char *text) {
  make_file(name, text, strlen(text));
  CHECK(chmod(name, 0755) == 0);
}

static pid_t run(const char *file, char *const args[]) {
  pid_t p = fork();
  if (p == 0) {
    execvp(file, args);
    _exit(99);
  }
  return p;
}

int main(void) {
  script("one", "#!/bin/sh -e\necho \"one: $0 $1\"; exit $1\n");
  script("two", "#!./one\nthis is not read by a shell\n");
  check_exited(run("./one", (char *[]){"zero", "12", NULL}), 12);
  pid_t p = run("./two", (char *[]){"zero", "13", NULL});
  int status;
  CHECK(waitpid(p, &status, 0) == p && WIFEXITED(status));
  CHECK(mkdir("bin", 0755) == 0);
  script("bin/found", "#! /bin/sh\nexit 14\n");
  CHECK(setenv("PATH", "/nowhere:bin:/usr/bin:/bin", 1) == 0);
  check_exited(run("found", (char *[]){"found", NULL}), 14);
  // Without #! execvp hands the file to the shell.
  script("bin/bare", "exit 15\n");
  check_exited(run("bare", (char *[]){"bare", NULL}), 15);
  printf("two gave %d\n", WEXITSTATUS(status));
  return guest_ok();
}
