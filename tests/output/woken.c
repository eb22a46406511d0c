// Two threads wait in the kernel to write to standard output, which is full. Meanwhile a third one goes on; a
// handler finds each of the two in its write, which ends with EINTR or is made again, as the handler's flags
// say. Then the reader may read.
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 4000 };
static atomic_int handled, interrupted, begun;

static void handle(int signal) {
  (void)signal;
  handled++;
}

static void *write_line(void *arg) {
  char line[WIDTH];
  memset(line, '.', sizeof line);
  line[snprintf(line, sizeof line, "thread %d ", (int)(intptr_t)arg)] = '.';
  line[WIDTH - 1] = '\n';
  begun++;
  while (write(1, line, sizeof line) != sizeof line) {
    assert(errno == EINTR);
    interrupted++;
  }
  return NULL;
}

// Until the counter has this value, and for long enough that it would have another one.
static void wait_for(atomic_int *counter, int value) {
  while (*counter != value) usleep(1000);
  usleep(100000);
  assert(*counter == value);
}

int main(void) {
  struct sigaction again = {.sa_handler = handle, .sa_flags = SA_RESTART}, ends = {.sa_handler = handle};
  assert(sigaction(SIGUSR1, &again, NULL) == 0 && sigaction(SIGUSR2, &ends, NULL) == 0);
  // Full, but for less than a line.
  char dots[1000];
  memset(dots, '.', sizeof dots);
  dots[sizeof dots - 1] = '\n';
  assert(fcntl(1, F_SETFL, O_WRONLY | O_NONBLOCK) == 0);
  while (write(1, dots, sizeof dots) > 0) {
  }
  assert(errno == EAGAIN && fcntl(1, F_SETFL, O_WRONLY) == 0);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) assert(pthread_create(&threads[i], NULL, write_line, (void *)(intptr_t)i) == 0);
  wait_for(&begun, 2);
  for (int i = 0; i < 2; i++) assert(pthread_kill(threads[i], SIGUSR1) == 0);
  wait_for(&handled, 2);
  assert(interrupted == 0);
  for (int i = 0; i < 2; i++) assert(pthread_kill(threads[i], SIGUSR2) == 0);
  wait_for(&interrupted, 2);
  close(open("full", O_CREAT | O_WRONLY, 0600));
  for (int i = 0; i < 2; i++) assert(pthread_join(threads[i], NULL) == 0);
  return handled == 4 && interrupted == 2 ? 0 : 1;
}
