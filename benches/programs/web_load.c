// A load for a web server, as WebStone makes one: so many clients, each a process that asks for one file after the other, each
// time over a connection of its own, chosen at random: 5 KB mostly, 5 MB at times.
//
// usage: web_load PORT CLIENTS SECONDS
// Prints: requests, megabytes, the mean and the longest response in milliseconds, the seconds that passed, and the seconds of
// processor time that the clients took.
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct seen { uint64_t requests, bytes; double waited, longest; } *seen;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static const char *choose(unsigned *state) {
  int drawn = rand_r(state) % 100;
  return drawn < 70 ? "5k" : drawn < 90 ? "50k" : drawn < 98 ? "500k" : "5m";
}

static void ask(int port, unsigned *state, struct seen *mine) {
  static char buffer[1 << 18];
  double begun = now();
  int connection = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  if (connect(connection, (void *)&address, sizeof address) != 0) {
    perror("connect");
    exit(1);
  }
  int len = snprintf(buffer, sizeof buffer, "GET /%s HTTP/1.0\r\nHost: localhost\r\n\r\n", choose(state));
  if (write(connection, buffer, len) != len) exit(1);
  ssize_t count;
  uint64_t bytes = 0;
  while ((count = read(connection, buffer, sizeof buffer)) > 0) bytes += count;
  close(connection);
  if (bytes < 5000) {
    fprintf(stderr, "a response of %lu bytes\n", (unsigned long)bytes);
    exit(1);
  }
  double took = now() - begun;
  mine->requests++, mine->bytes += bytes, mine->waited += took;
  if (took > mine->longest) mine->longest = took;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  int port = atoi(argv[1]), clients = atoi(argv[2]);
  seen = mmap(NULL, clients * sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  double begun = now(), end = begun + atof(argv[3]);
  for (int i = 0; i < clients; i++) {
    if (fork() != 0) continue;
    unsigned state = i + 1;
    while (now() < end) ask(port, &state, &seen[i]);
    return 0;
  }
  int status, failed = 0;
  while (wait(&status) > 0) failed |= status;
  struct seen all = {0};
  for (int i = 0; i < clients; i++) {
    all.requests += seen[i].requests, all.bytes += seen[i].bytes, all.waited += seen[i].waited;
    if (seen[i].longest > all.longest) all.longest = seen[i].longest;
  }
  struct rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  double own = used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
  printf("%lu %.3f %.3f %.3f %.3f %.3f\n", (unsigned long)all.requests, all.bytes / 1e6,
         all.waited / all.requests * 1e3, all.longest * 1e3, now() - begun, own);
  return failed != 0;
}
