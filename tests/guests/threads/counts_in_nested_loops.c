// A thread spins, with a loop in its loop: the inner one counts on the stack, the outer one far away.
#include "far_away.h"

LOOP("sub $64, %rsp; 1: movl $100, 8(%rsp); 2: nop; nop; nop; nop; nop; nop; decl 8(%rsp); jnz 2b; " COUNT "; add $64, %rsp")

int main(void) {
  return count_far_away();
}
