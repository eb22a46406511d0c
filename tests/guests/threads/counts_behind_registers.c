// A thread spins, with a loop in its loop that counts in a register, for longer than is waited for a round to end as it began.
#include "far_away.h"

LOOP("1: mov $100, %ecx; 2: nop; nop; nop; nop; nop; nop; dec %ecx; jnz 2b; " COUNT)

int main(void) {
  return count_far_away();
}
