// PR_SET_MM, with which restored processes and some that change their title say where their arguments are: it needs a
// capability that few have (EPERM), and where it is refused the title is written where the arguments have been.
#include "../guest.h"

#include <sys/prctl.h>

int main(int argc, char **argv) {
  (void)argc;
  unsigned size = 0;
  int known = prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0);
  CHECK((known == 0 && size > 0) || (known == -1 && (errno == EPERM || errno == EINVAL)));
  int set = prctl(PR_SET_MM, PR_SET_MM_ARG_START, argv[0], 0, 0);
  CHECK(set == 0 || errno == EPERM || errno == EINVAL);
  argv[0][0] = '!';
  char line[16] = "";
  int fd = open("/proc/self/cmdline", O_RDONLY);
  CHECK(fd >= 0 && read(fd, line, sizeof line) > 0 && line[0] == '!');
  return guest_ok();
}
