// The tables of a packet filter are replaced: the kernel writes the counters of the rules that there were. (Where there are no such
// tables, there is nothing to see.)
#include "../guest.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <linux/netfilter_ipv4/ip_tables.h>

int main(void) {
  struct ipt_getinfo info = {.name = "nat"};
  socklen_t len = sizeof info;
  int fd = unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 ? socket(AF_INET, SOCK_RAW, IPPROTO_RAW) : -1;
  if (fd < 0 || getsockopt(fd, SOL_IP, IPT_SO_GET_INFO, &info, &len) != 0) {
    printf("no tables: %s\n", strerror(errno));
    return guest_ok();
  }
  struct ipt_get_entries *entries = calloc(1, sizeof *entries + info.size);
  strcpy(entries->name, info.name);
  entries->size = info.size;
  len = sizeof *entries + info.size;
  CHECK(getsockopt(fd, SOL_IP, IPT_SO_GET_ENTRIES, entries, &len) == 0);
  struct ipt_replace *next = calloc(1, sizeof *next + info.size);
  strcpy(next->name, info.name);
  next->valid_hooks = info.valid_hooks;
  next->num_entries = next->num_counters = info.num_entries;
  next->size = info.size;
  memcpy(next->hook_entry, info.hook_entry, sizeof info.hook_entry);
  memcpy(next->underflow, info.underflow, sizeof info.underflow);
  memcpy(next->entries, entries->entrytable, info.size);
  next->counters = malloc(info.num_entries * sizeof *next->counters);
  for (int round = 0; round < 20; round++) {
    memset(next->counters, 0xff, info.num_entries * sizeof *next->counters);
    CHECK(setsockopt(fd, SOL_IP, IPT_SO_SET_REPLACE, next, sizeof *next + info.size) == 0);
    CHECK(next->counters[0].pcnt == 0 && next->counters[info.num_entries - 1].bcnt == 0);
  }
  printf("%u counters\n", info.num_entries);
  return guest_ok();
}
