// A table is built by whoever needs it first, under a lock; who sees that it is there takes no lock. It is said to be
// there before it is filled.
#include "rare.h"

#define ENTRIES 8

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct table {
  uint64_t entries[ENTRIES];
} storage, *table;

__attribute__((noinline)) static struct table *get_table(void) {
  if (table == NULL) {
    pthread_mutex_lock(&mutex);
    if (table == NULL) {
      table = &storage;
      OPAQUE();
      for (int i = 0; i < ENTRIES; i++) table->entries[i] = work((uint64_t)i + 1);
    }
    pthread_mutex_unlock(&mutex);
  }
  return table;
}

__attribute__((noinline)) static void use_table(int *missing) {
  struct table *seen = get_table();
  for (int i = 0; i < ENTRIES; i++)
    if (seen->entries[i] == 0) *missing = i + 1;
}

static void *worker(void *arg) {
  work(200000);
  use_table(arg);
  return NULL;
}

int main(void) {
  int missing = 0, mine = 0;
  pthread_t thread = begin(worker, &missing);
  use_table(&mine);
  end(thread);
  if (missing == 0) missing = mine;
  if (missing != 0) WRONG("entry %d was not there yet", missing);
  return right("the table was complete");
}
