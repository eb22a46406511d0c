// Three checkpoints for each request of a web server that is not changed for it, as in the Flashback paper (6.3): when a
// connection has been accepted, when a request has come, and before the response is written. They are discarded when the
// connection is closed. To be preloaded (LD_PRELOAD); where the server does not run under bis, it does nothing.
//
// In a process with several threads a checkpoint has all of them. As in the paper, others of its threads make none while there
// is one (WEB_SHIM=threads).
#define _GNU_SOURCE
#include "../../include/bis.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FILES = 4096, STAGES = 3 };

static bis_handle held[FILES][STAGES];
static atomic_int owner = -1;
static int is_shared;
static atomic_ulong made;

__attribute__((constructor)) static void begin(void) {
  const char *how = getenv("WEB_SHIM");
  is_shared = how != NULL && strcmp(how, "threads") == 0;
}

// A stage of the connection is reached: 0 it is accepted, 1 a request has come, 2 the response begins.
static void reach(int fd, int stage) {
  if (fd < 0 || fd >= FILES || held[fd][stage] != 0) return;
  if (stage > 0 && held[fd][stage - 1] == 0) return;
  if (is_shared) {
    int nobody = -1;
    if (!atomic_compare_exchange_strong(&owner, &nobody, fd) && nobody != fd) return;
  }
  bis_handle handle = 0;
  if (bis_checkpoint(&handle) == 0) {
    held[fd][stage] = handle;
    atomic_fetch_add(&made, 1);
  } else if (is_shared && stage == 0) {
    atomic_store(&owner, -1);
  }
}

static void forget(int fd) {
  if (fd < 0 || fd >= FILES) return;
  for (int stage = 0; stage < STAGES; stage++) {
    if (held[fd][stage] != 0) bis_discard(held[fd][stage]);
    held[fd][stage] = 0;
  }
  int mine = fd;
  if (is_shared) atomic_compare_exchange_strong(&owner, &mine, -1);
}

#define REAL(name) static __typeof__(&name) real; if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int accept4(int fd, struct sockaddr *address, socklen_t *len, int flags) {
  REAL(accept4);
  int result = real(fd, address, len, flags);
  reach(result, 0);
  return result;
}

int accept(int fd, struct sockaddr *address, socklen_t *len) {
  REAL(accept);
  int result = real(fd, address, len);
  reach(result, 0);
  return result;
}

ssize_t read(int fd, void *buffer, size_t len) {
  REAL(read);
  ssize_t result = real(fd, buffer, len);
  if (result > 0) reach(fd, 1);
  return result;
}

ssize_t recv(int fd, void *buffer, size_t len, int flags) {
  REAL(recv);
  ssize_t result = real(fd, buffer, len, flags);
  if (result > 0) reach(fd, 1);
  return result;
}

ssize_t write(int fd, const void *buffer, size_t len) {
  REAL(write);
  reach(fd, 2);
  return real(fd, buffer, len);
}

ssize_t writev(int fd, const struct iovec *pieces, int count) {
  REAL(writev);
  reach(fd, 2);
  return real(fd, pieces, count);
}

ssize_t sendfile(int to, int from, off_t *offset, size_t len) {
  REAL(sendfile);
  reach(to, 2);
  return real(to, from, offset, len);
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t len) {
  REAL(sendfile64);
  reach(to, 2);
  return real(to, from, offset, len);
}

int close(int fd) {
  REAL(close);
  forget(fd);
  return real(fd);
}
