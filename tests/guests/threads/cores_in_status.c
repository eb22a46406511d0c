// /proc/self/status names the cores that the program may run on, as sched_getaffinity does: all that it was given, and then the
// one that it has asked for.
#include "../guest.h"
#include <sched.h>

static void line(const char *name, char *text, size_t room) {
  FILE *status = fopen("/proc/thread-self/status", "r");
  CHECK(status);
  size_t len = strlen(name);
  for (;;) {
    CHECK(fgets(text, room, status));
    if (!strncmp(text, name, len) && text[len] == ':')
      break;
  }
  fclose(status);
  memmove(text, text + len + 2, strlen(text + len + 2) + 1);
  text[strcspn(text, "\n")] = 0;
}

static void is_told(const cpu_set_t *set) {
  char mask[4096], list[4096], expected[4096] = "";
  line("Cpus_allowed", mask, sizeof mask);
  line("Cpus_allowed_list", list, sizeof list);
  int core = 0;
  for (char *digit = mask + strlen(mask); digit-- > mask;) {
    if (*digit == ',')
      continue;
    char text[2] = {*digit, 0};
    long value = strtol(text, NULL, 16);
    for (int bit = 0; bit < 4; bit++, core++)
      CHECK(core >= CPU_SETSIZE || !CPU_ISSET(core, set) == !(value >> bit & 1));
  }
  for (int first = 0; first < CPU_SETSIZE; first++) {
    if (!CPU_ISSET(first, set))
      continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
      last++;
    char *end = expected + strlen(expected);
    const char *comma = end > expected ? "," : "";
    if (first == last)
      sprintf(end, "%s%d", comma, first);
    else
      sprintf(end, "%s%d-%d", comma, first, last);
    first = last;
  }
  CHECK(!strcmp(list, expected));
}

int main(void) {
  cpu_set_t set;
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
  is_told(&set);
  int some = 0;
  while (!CPU_ISSET(some, &set))
    some++;
  CPU_ZERO(&set);
  CPU_SET(some, &set);
  CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
  is_told(&set);
  puts("guest ok");
}
