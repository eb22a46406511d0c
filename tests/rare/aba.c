// A stack without locks: pop reads the top and what lies below it, then exchanges the top if it is still the same. If
// meanwhile another thread has popped two and pushed the first again, the top is the same, and what lay below is not: a
// node is then in the stack and in use.
#include "rare.h"

#define NODES 3
// Odd: what lies below the top is another node then.
#define ROUNDS 7

static struct node {
  struct node *_Atomic next;
  atomic_int owners;
} nodes[NODES];

static struct node *_Atomic top;

static void push(struct node *node) {
  struct node *old = atomic_load(&top);
  do atomic_store(&node->next, old);
  while (!atomic_compare_exchange_weak(&top, &old, node));
}

__attribute__((noinline)) static struct node *pop(void) {
  struct node *old = atomic_load(&top);
  while (old != NULL) {
    struct node *below = atomic_load(&old->next);
    if (atomic_compare_exchange_weak(&top, &old, below)) break;
  }
  return old;
}

static struct node *take(void) {
  struct node *node = pop();
  if (node != NULL && atomic_fetch_add(&node->owners, 1) != 0) WRONG("node %d was given out twice", (int)(node - nodes));
  return node;
}

static void give(struct node *node) {
  atomic_fetch_sub(&node->owners, 1);
  push(node);
}

static void *worker(void *arg) {
  for (int i = 0; i < ROUNDS; i++) {
    struct node *first = take(), *second = take(), *third = take();
    work((uintptr_t)arg);
    if (second != NULL) give(second);
    if (third != NULL) give(third);
    if (first != NULL) give(first);
  }
  return NULL;
}

int main(void) {
  for (int i = 0; i < NODES; i++) push(&nodes[i]);
  pthread_t first = begin(worker, (void *)10);
  work(100000);
  pthread_t second = begin(worker, (void *)30);
  end(first);
  end(second);
  int count = 0;
  for (struct node *node = top; node != NULL && count <= NODES; node = node->next) count++;
  if (count != NODES) WRONG("%d nodes in the stack, not %d", count, NODES);
  return right("every node had one owner");
}
