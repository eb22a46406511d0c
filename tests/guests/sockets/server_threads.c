// A threaded echo server and eight client threads in one process, over a unix socket.
#include "../guest.h"
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "./echo"};

static void *handle(void *arg) {
  int fd = (int)(long)arg;
  char buf[64];
  ssize_t n;
  long total = 0;
  while ((n = read(fd, buf, sizeof buf)) > 0) {
    CHECK(write(fd, buf, (size_t)n) == n);
    total += n;
  }
  close(fd);
  return (void *)total;
}

static void *server(void *arg) {
  pthread_t t[8];
  long total = 0;
  for (int i = 0; i < 8; i++) {
    int fd = accept((int)(long)arg, NULL, NULL);
    CHECK(fd >= 0);
    t[i] = start_thread(handle, (void *)(long)fd);
  }
  for (int i = 0; i < 8; i++) total += (long)join_thread(t[i]);
  return (void *)total;
}

static void *client(void *arg) {
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  char out[32], in[32];
  CHECK(connect(fd, (struct sockaddr *)&name, sizeof name) == 0);
  for (int i = 0; i < 30; i++) {
    int n = snprintf(out, sizeof out, "client %ld message %02d", (long)arg, i);
    CHECK(write(fd, out, (size_t)n) == n && recv(fd, in, (size_t)n, MSG_WAITALL) == n && memcmp(in, out, (size_t)n) == 0);
  }
  close(fd);
  return NULL;
}

int main(void) {
  int l = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(l, (struct sockaddr *)&name, sizeof name) == 0 && listen(l, 8) == 0);
  pthread_t s = start_thread(server, (void *)(long)l), c[8];
  for (long i = 0; i < 8; i++) c[i] = start_thread(client, (void *)i);
  for (int i = 0; i < 8; i++) join_thread(c[i]);
  CHECK((long)join_thread(s) == 8 * 30 * 19);
  printf("%d served 8\n", getpid());
  return guest_ok();
}
