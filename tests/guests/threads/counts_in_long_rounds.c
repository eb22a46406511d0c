// A thread spins, and a round has more instructions than are stepped.
#include "far_away.h"

LOOP("1: .rept 3000; nop; .endr; " COUNT)

int main(void) {
  return count_far_away();
}
