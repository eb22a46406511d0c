// execve that fails leaves everything as it was: ENOENT, EACCES, ENOEXEC, ENOTDIR, E2BIG, ETXTBSY, EFAULT, ELOOP.
#include "../guest.h"

int main(void) {
  char *args[] = {"x", NULL}, *none[] = {NULL};
  CHECK_ERRNO(execve("absent", args, none), ENOENT);
  make_file("plain", "just text", 9);
  CHECK_ERRNO(execve("plain", args, none), EACCES);
  CHECK(chmod("plain", 0755) == 0);
  CHECK_ERRNO(execve("plain", args, none), ENOEXEC);
  CHECK_ERRNO(execve("plain/x", args, none), ENOTDIR);
  CHECK_ERRNO(execve("/", args, none), EACCES);
  CHECK_ERRNO(syscall(SYS_execve, 1, args, none), EFAULT);
  make_file("script", "#!/nonexistent/interpreter\n", 27);
  CHECK(chmod("script", 0755) == 0);
  CHECK_ERRNO(execve("script", args, none), ENOENT);
  CHECK(symlink("l", "l") == 0);
  CHECK_ERRNO(execve("l", args, none), ELOOP);
  size_t huge = 200000;
  char *big = malloc(huge);
  memset(big, 'a', huge - 1), big[huge - 1] = 0;
  char *many[] = {"x", big, NULL};
  CHECK_ERRNO(execve("/proc/self/exe", many, none), E2BIG);
  static volatile int alive = 1;
  int fd = open("plain", O_WRONLY);
  int r = execve("plain", args, none);
  CHECK(r == -1 && (errno == ETXTBSY || errno == ENOEXEC) && alive == 1);
  close(fd);
  pid_t p = fork();
  if (p == 0) {
    execv("absent", args);
    _exit(errno == ENOENT ? 21 : 22);
  }
  check_exited(p, 21);
  printf("%d\n", p);
  return guest_ok();
}
