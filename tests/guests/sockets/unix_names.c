// Unix sockets with names, in the filesystem and abstract; connection queue; peer addresses.
#include "../guest.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static void serve_once(struct sockaddr_un *a, socklen_t len) {
  int l = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(l >= 0 && bind(l, (struct sockaddr *)a, len) == 0 && listen(l, 1) == 0);
  int again = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK_ERRNO(bind(again, (struct sockaddr *)a, len), EADDRINUSE);
  pid_t p = fork();
  if (p == 0) {
    int c = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(connect(c, (struct sockaddr *)a, len) == 0);
    struct sockaddr_un peer = {0};
    socklen_t n = sizeof peer;
    CHECK(getpeername(c, (struct sockaddr *)&peer, &n) == 0 && n > 2 && memcmp(peer.sun_path, a->sun_path, 4) == 0);
    char text[16] = "";
    CHECK(read(c, text, 15) == 7 && strcmp(text, "welcome") == 0);
    _exit(0);
  }
  struct sockaddr_un who = {0};
  socklen_t n = sizeof who;
  int s = accept(l, (struct sockaddr *)&who, &n);
  CHECK(s >= 0 && n == sizeof(sa_family_t) && who.sun_family == AF_UNIX);
  CHECK(write(s, "welcome", 7) == 7);
  check_exited(p, 0);
  CHECK(close(l) == 0 && close(s) == 0);
}

int main(void) {
  struct sockaddr_un file = {.sun_family = AF_UNIX, .sun_path = "./socket"}, abstract = {.sun_family = AF_UNIX};
  serve_once(&file, sizeof file);
  int c = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK_ERRNO(connect(c, (struct sockaddr *)&file, sizeof file), ECONNREFUSED);
  int n = snprintf(abstract.sun_path + 1, 50, "guest-%d", getpid());
  serve_once(&abstract, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n));
  CHECK_ERRNO(connect(c, (struct sockaddr *)&abstract, sizeof abstract), ECONNREFUSED);
  printf("%s\n", abstract.sun_path + 1);
  return guest_ok();
}
