// fexecve and execveat: by descriptor, by folder and name, from a memfd, and a deleted program.
#include "../guest.h"
#include <sys/sendfile.h>

int main(int argc, char **argv) {
  if (argc > 1) return atoi(argv[1]) + 1;
  char *env[] = {NULL};
  int self = open("/proc/self/exe", O_RDONLY);
  CHECK(self >= 0);
  struct stat st;
  CHECK(fstat(self, &st) == 0);
  pid_t p = fork();
  if (p == 0) fexecve(self, (char *[]){"a", "40", NULL}, env), _exit(99);
  check_exited(p, 41);
  int mem = memfd_create("program", MFD_CLOEXEC);
  off_t at = 0;
  while (at < st.st_size) CHECK(sendfile(mem, self, &at, (size_t)(st.st_size - at)) > 0);
  p = fork();
  if (p == 0) fexecve(mem, (char *[]){"b", "50", NULL}, env), _exit(99);
  check_exited(p, 51);
  int copy = open("copy", O_CREAT | O_WRONLY, 0755);
  at = 0;
  while (at < st.st_size) CHECK(sendfile(copy, self, &at, (size_t)(st.st_size - at)) > 0);
  CHECK(close(copy) == 0);
  int here = open(".", O_DIRECTORY | O_RDONLY);
  p = fork();
  if (p == 0) syscall(SYS_execveat, here, "copy", (char *[]){"c", "60", NULL}, env, 0), _exit(99);
  check_exited(p, 61);
  copy = open("copy", O_RDONLY | O_CLOEXEC);
  CHECK(unlink("copy") == 0);
  p = fork();
  if (p == 0) fexecve(copy, (char *[]){"d", "70", NULL}, env), _exit(99);
  check_exited(p, 71);
  printf("%ld bytes of program\n", (long)st.st_size);
  (void)argv;
  return guest_ok();
}
