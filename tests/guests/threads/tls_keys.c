// pthread keys with destructors, __thread arrays, pthread_self, names, attributes and stacks of one's own.
#include "../guest.h"

static pthread_key_t key;
static int destroyed;
static __thread char area[5000];

static void destroy(void *p) {
  CHECK(*(int *)p == 5);
  free(p);
  __atomic_add_fetch(&destroyed, 1, __ATOMIC_SEQ_CST);
}

static void *body(void *arg) {
  int *value = malloc(sizeof *value);
  *value = 5;
  CHECK(pthread_setspecific(key, value) == 0 && pthread_getspecific(key) == value);
  for (size_t i = 0; i < sizeof area; i++) CHECK(area[i] == 0);
  memset(area, 1, sizeof area);
  char name[16] = "";
  CHECK(pthread_setname_np(pthread_self(), "guest-worker") == 0);
  CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "guest-worker") == 0);
  if (arg) CHECK((char *)&value > (char *)arg && (char *)&value < (char *)arg + (1 << 18));
  return area;
}

int main(void) {
  CHECK(pthread_key_create(&key, destroy) == 0);
  void *p = NULL;
  for (int i = 0; i < 4; i++) p = join_thread(start_thread(body, NULL));
  CHECK(destroyed == 4);
  void *stack = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attr;
  CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstack(&attr, stack, 1 << 18) == 0);
  pthread_t t;
  CHECK(pthread_create(&t, &attr, body, stack) == 0);
  join_thread(t);
  CHECK(destroyed == 5 && area[0] == 0);
  printf("thread-local at %p and %p\n", p, area);
  return guest_ok();
}
