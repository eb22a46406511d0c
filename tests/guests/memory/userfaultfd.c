// Page faults that a program answers itself: it may, or it is refused as where the kernel has none or does not let everybody
// (ENOSYS, EPERM), by the call and by the device.
#include "../guest.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

int main(void) {
  int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
  bool is_missing = fd < 0 && errno == ENOSYS;
  CHECK(fd >= 0 || is_missing || errno == EPERM);
  if (fd >= 0) {
    struct uffdio_api api = {.api = UFFD_API};
    CHECK(ioctl(fd, UFFDIO_API, &api) == 0 && api.api == UFFD_API);
    close(fd);
  }
  int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  if (device >= 0) {
    int made = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
    CHECK(is_missing ? made < 0 && errno == ENOTTY : made >= 0);
    if (made >= 0) close(made);
    close(device);
  }
  // The memory that it would have been for fills itself with zeros.
  char *m = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(m != MAP_FAILED && m[17] == 0);
  return guest_ok();
}
