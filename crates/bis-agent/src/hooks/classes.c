#include <asm/stat.h>
#include <asm/unistd.h>
#include <linux/stat.h>

#include "classes.h"

// Major 1, minor 3 (Documentation/admin-guide/devices.txt).
#define DEV_NULL 0x103

// A file was opened to be written, or cut. If it is a regular one that concerns nobody, or /dev/null, its descriptor has a
// class at once. If it was `cut`, and somebody has it mapped after all (its name led to another file when that was asked), the
// supervisor is told before the program goes on.
void hooks_classify(u64 fd, u64 cut) {
  volatile struct stat *stat = (volatile struct stat *)SCRATCH_BASE;
  stat->st_dev = stat->st_ino = stat->st_mode = stat->st_rdev = 0;
  u64 args[6] = {fd, SCRATCH_BASE, 0, 0, 0, 0};
  i64 result = hooks_make(args, __NR_fstat);
  u64 dev = stat->st_dev, ino = stat->st_ino, mode = stat->st_mode & S_IFMT;
  u64 null = 1 & ~(is(result) | is(mode ^ S_IFCHR) | is(stat->st_rdev ^ DEV_NULL) | is(S->no_fds));
  u64 other = is(result) | is(mode ^ S_IFREG) | is_mapped(dev, ino) | is(S->no_fds);
  for (int i = 0; i < 4; i += 2) other |= 1 & ~(is(dev ^ S->outputs[i]) | is(ino ^ S->outputs[i + 1]));
  for (int i = 0; i < 2; i++) other |= 1 & ~is(dev ^ S->devices[i]);
  cut &= is_mapped(dev, ino) & !is(result) & ~S->replay;
  S->cut |= (fd + 1) & -cut;
  S->exit_stop |= cut;
  if (fd >= FDS) return;
  FD_CLASS[fd] = FD_FILE & (other - 1);
  // A domain that watches a file says so, then takes classes away: this one, or it is seen here.
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  FD_CLASS[fd] &= is_mapped(dev, ino) - 1;
  FD_CLASS[fd] |= FD_PLAIN & -null;
}
