// A file system from which a program was executed is unmounted when the program has ended: nobody has its file open still.
#include "../guest.h"

#include <sys/mount.h>
#include <sys/sendfile.h>

int main(int argc, char **argv) {
  if (argc > 1) {
    printf("executed from %s\n", argv[1]);
    return guest_ok();
  }
  if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) || mkdir("mounted", 0700) ||
      mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("none", "mounted", "tmpfs", 0, "size=8m")) {
    puts("no file system of its own");
    return guest_ok();
  }
  int from = open("/proc/self/exe", O_RDONLY), to = open("mounted/program", O_CREAT | O_WRONLY, 0700);
  struct stat stat;
  CHECK(from >= 0 && to >= 0 && fstat(from, &stat) == 0);
  while (sendfile(to, from, NULL, 1 << 20) > 0) {
  }
  CHECK(fstat(to, &stat) == 0 && stat.st_size > 1000 && close(to) == 0);
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    execl("mounted/program", argv[0], "there", (char *)NULL);
    _exit(1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(umount("mounted") == 0 && rmdir("mounted") == 0);
  return guest_ok();
}
