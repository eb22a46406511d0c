// A tracer that seizes, and waits for stops.
#ifndef SEIZED_H
#define SEIZED_H
#include "../guest.h"
#include <sys/ptrace.h>

// The event of a process that has stopped, and of a tracee that was asked to.
static const int stopped = PTRACE_EVENT_STOP << 8;

// Waits for the next stop of the tracee: its signal and event.
static int stop_of(pid_t pid) {
  int status;
  CHECK(waitpid(pid, &status, __WALL) == pid);
  CHECK(WIFSTOPPED(status));
  return status >> 8;
}

#endif
