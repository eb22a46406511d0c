// A thread spins, and counts far away only every tenth of a millisecond.
#include "far_away.h"

LOOP("1: mov $300000, %ecx; 2: dec %ecx; jnz 2b; " COUNT)

int main(void) {
  return count_far_away();
}
