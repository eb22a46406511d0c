// A thread spins, and only a counter far away tells one round from the next.
#include "far_away.h"

LOOP("1: " COUNT)

int main(void) {
  return count_far_away();
}
