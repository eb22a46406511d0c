// Interfaces are asked for what they are: a request that holds a pointer to a command's structure, of each command another; and what
// file systems, and radios, are asked that are none.
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <linux/wireless.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "../guest.h"

static int ask(int fd, void *command) {
  struct ifreq request = {.ifr_data = command};
  strcpy(request.ifr_name, "lo");
  errno = 0;
  return ioctl(fd, SIOCETHTOOL, &request) ? errno : 0;
}

// Each structure between guards that must stay.
#define ASK(fd, type, number)                                                                         \
  ({                                                                                                  \
    struct {                                                                                          \
      char before[16];                                                                                \
      type it;                                                                                        \
      char after[16];                                                                                 \
    } asked;                                                                                          \
    memset(&asked, 0x5a, sizeof asked);                                                               \
    asked.it.cmd = number;                                                                            \
    int error = ask(fd, &asked.it);                                                                   \
    unsigned sum = 0;                                                                                 \
    for (size_t i = 0; i < sizeof asked.it; i++) sum = sum * 31 + ((unsigned char *)&asked.it)[i];    \
    printf("%s: %s, %x\n", #number, error ? strerror(error) : "told", sum);                           \
    CHECK(is_all(asked.before, 16, 0x5a) && is_all(asked.after, 16, 0x5a));                           \
    asked.it;                                                                                         \
  })

// `struct ethtool_sset_info` with room for an answer to each bit of its mask.
struct counts {
  __u32 cmd, reserved;
  __u64 mask;
  __u32 data[64];
};

int main(void) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(fd >= 0);
  for (int round = 0; round < 3; round++) {
    struct ethtool_drvinfo info = ASK(fd, struct ethtool_drvinfo, ETHTOOL_GDRVINFO);
    printf("%.32s\n", info.driver);
    struct ethtool_value link = ASK(fd, struct ethtool_value, ETHTOOL_GLINK);
    printf("link %u\n", link.data);
    ASK(fd, struct ethtool_ts_info, ETHTOOL_GET_TS_INFO);
    ASK(fd, struct ethtool_cmd, ETHTOOL_GSET);
    ASK(fd, struct ethtool_wolinfo, ETHTOOL_GWOL);
    ASK(fd, struct ethtool_coalesce, ETHTOOL_GCOALESCE);
    ASK(fd, struct ethtool_ringparam, ETHTOOL_GRINGPARAM);
    ASK(fd, struct ethtool_pauseparam, ETHTOOL_GPAUSEPARAM);
    ASK(fd, struct ethtool_channels, ETHTOOL_GCHANNELS);
    ASK(fd, struct ethtool_eee, ETHTOOL_GEEE);
    ASK(fd, struct ethtool_value, ETHTOOL_GFLAGS);
    // One that takes the slow way.
    ASK(fd, struct counts, ETHTOOL_GSSET_INFO);
    struct {
      struct ethtool_link_settings it;
      __u32 masks[3 * 127];
    } settings = {.it = {.cmd = ETHTOOL_GLINKSETTINGS}};
    int error = ask(fd, &settings);
    printf("settings: %d, %d words\n", error, settings.it.link_mode_masks_nwords);
    if (!error && settings.it.link_mode_masks_nwords < 0) {
      settings.it.link_mode_masks_nwords *= -1;
      settings.it.cmd = ETHTOOL_GLINKSETTINGS;
      error = ask(fd, &settings);
      printf("again: %d, speed %u, mask %x\n", error, settings.it.speed, settings.masks[0]);
    }
    struct {
      struct ethtool_perm_addr it;
      char bytes[32];
    } address = {.it = {.cmd = ETHTOOL_GPERMADDR, .size = 32}};
    error = ask(fd, &address);
    printf("address: %d, %u bytes\n", error, address.it.size);

    struct iwreq radio = {0};
    char name[33] = "";
    strcpy(radio.ifr_name, "lo");
    CHECK(ioctl(fd, SIOCGIWNAME, &radio) == -1);
    radio.u.essid = (struct iw_point){name, sizeof name, 0};
    CHECK(ioctl(fd, SIOCGIWESSID, &radio) == -1);
    CHECK(ask(fd, (void *)8) == EFAULT);

    int file = open("file", O_CREAT | O_RDWR, 0600);
    uint32_t features = 7;
    CHECK(file >= 0);
    error = ioctl(file, _IOR(0xf5, 12, uint32_t), &features);
    printf("F2FS: %d, %u\n", error, features);
    CHECK(close(file) == 0);
  }
  return guest_ok();
}
