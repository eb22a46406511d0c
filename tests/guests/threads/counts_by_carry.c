// A thread spins, with two counters far away: the one that a round changes begins anew each hundred rounds, and is carried to the other.
#include "far_away.h"

LOOP("1: mov (%rdi), %rax; xor %rsi, %rax; incq 0x100000(%rax); cmpq $100, 0x100000(%rax); jb 2f; movq $0, 0x100000(%rax); "
     "incq (%rax); 2: xor %eax, %eax; cmpl $3, (%rdx); jl 1b")

int main(void) {
  return count_far_away();
}
