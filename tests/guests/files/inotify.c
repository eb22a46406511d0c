// inotify: events of a folder in order, with names and cookies.
#include "../guest.h"
#include <sys/inotify.h>

int main(void) {
  CHECK(mkdir("d", 0700) == 0);
  int in = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  CHECK(in >= 0);
  int watch = inotify_add_watch(in, "d", IN_CREATE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_MODIFY);
  CHECK(watch > 0);
  char buf[4096] __attribute__((aligned(8)));
  CHECK_ERRNO(read(in, buf, sizeof buf), EAGAIN);
  make_file("d/a", "x", 1);
  CHECK(rename("d/a", "d/b") == 0 && unlink("d/b") == 0);
  ssize_t n = read(in, buf, sizeof buf);
  CHECK(n > 0);
  uint32_t want[] = {IN_CREATE, IN_MODIFY, IN_MOVED_FROM, IN_MOVED_TO, IN_DELETE}, cookie = 0;
  int i = 0;
  for (char *p = buf; p < buf + n; i++) {
    struct inotify_event *e = (struct inotify_event *)p;
    CHECK(i < 5 && e->wd == watch && e->mask == want[i]);
    CHECK(strcmp(e->name, i < 3 ? "a" : "b") == 0);
    if (i == 2) cookie = e->cookie;
    if (i == 3) CHECK(e->cookie == cookie && cookie != 0);
    p += sizeof *e + e->len;
  }
  CHECK(i == 5);
  CHECK(inotify_rm_watch(in, watch) == 0);
  CHECK(read(in, buf, sizeof buf) == sizeof(struct inotify_event));
  printf("cookie %u\n", cookie);
  return guest_ok();
}
