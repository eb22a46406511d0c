// A thread looks whether there is a session and then uses it; the main thread ends the session meanwhile. It does so a
// millisecond later, when the thread has long been done.
#include "rare.h"

struct session {
  uint64_t magic;
  uint64_t requests;
};

#define ALIVE 0x5e5510eull
#define FREED 0xdeadull

static struct session *current;
static struct session *seen_freed;

static void session_free(struct session *session) {
  session->magic = FREED;
  // It would be free() here; the program keeps it to see whether anybody uses it.
}

__attribute__((noinline)) static void request(void) {
  if (current == NULL) return;
  OPAQUE();
  struct session *session = current;
  if (session == NULL) WRONG("there is no session any more");
  session->requests++;
  OPAQUE();
  if (session->magic != ALIVE) seen_freed = session;
}

static void *worker(void *arg) {
  (void)arg;
  for (int i = 0; i < 10; i++) request();
  return NULL;
}

int main(void) {
  struct session *session = malloc(sizeof *session);
  MUST(session != NULL);
  *session = (struct session){.magic = ALIVE};
  current = session;
  pthread_t thread = begin(worker, NULL);
  sleep_us(1000);
  current = NULL;
  OPAQUE();
  session_free(session);
  end(thread);
  if (seen_freed != NULL) WRONG("a session was used after its end, by request %lu", (unsigned long)session->requests);
  return right("no session was used after its end");
}
