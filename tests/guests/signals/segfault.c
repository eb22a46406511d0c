// status: 139
// Ends by a real fault.
#include "../guest.h"

int main(void) {
  guest_ok();
  *(volatile int *)0x10 = 1;
  return 1;
}
