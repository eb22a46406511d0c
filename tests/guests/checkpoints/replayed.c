// What was done since a checkpoint is executed again, as often as the program asks for it: with several threads, after
// ways back, in a forked child, and while another process goes on.
#include "checkpoints.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn, turns;

static void *works(void *unused) {
  (void)unused;
  pthread_mutex_lock(&mutex);
  for (;;) {
    while (turn == 0) pthread_cond_wait(&changed, &mutex);
    if (turn < 0) break;
    turn = 0;
    turns++;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static void let_work(void) {
  pthread_mutex_lock(&mutex);
  turn = 1;
  pthread_cond_broadcast(&changed);
  while (turn == 1) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

int main(void) {
  needs_bis();
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, works, NULL) == 0);
  let_work();
  bis_handle outer = 0, inner = 0;
  int times = bis_checkpoint(&outer);
  CHECK(times >= 0 && turns == 1);
  CHECK(bis_rollback(outer, BIS_REPLAY) == 0 && bis_how(outer) == BIS_REPLAY);
  let_work();
  int again = bis_checkpoint(&inner);
  CHECK(again >= 0 && turns == 2);
  let_work();
  CHECK(bis_rollback(inner, BIS_REPLAY) == 0 && bis_rollback(outer, BIS_REPLAY) == 0);
  CHECK(turns == 3 && bis_how(inner) == BIS_REPLAY && bis_how(outer) == BIS_REPLAY);
  printf("%d %d\n", times, again);
  if (again < 1) bis_rollback(inner, BIS_RETRY);
  CHECK(bis_rollback(inner, BIS_REPLAY) == 0);
  if (times < 1) bis_rollback(outer, BIS_RETRY);
  CHECK(times == 1 && again == 1);
  CHECK(bis_discard(inner) == 0 && bis_rollback(inner, BIS_REPLAY) == -EINVAL);
  CHECK(bis_rollback(outer, 3) == -EINVAL);

  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(ends[0]);
    bis_handle own = 0;
    CHECK(bis_rollback(outer, BIS_REPLAY) == -EINVAL);
    CHECK(bis_checkpoint(&own) == 0);
    for (int i = 0; i < 3; i++) CHECK(write(ends[1], "x", 1) == 1 && bis_rollback(own, BIS_REPLAY) == 0);
    _exit(0);
  }
  close(ends[1]);
  char byte;
  int count = 0;
  while (read(ends[0], &byte, 1) == 1) count++;
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0 && count == 3);
  CHECK(bis_rollback(outer, BIS_REPLAY) == 0 && bis_discard(outer) == 0);

  pthread_mutex_lock(&mutex);
  turn = -1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  CHECK(pthread_join(thread, NULL) == 0);
  return guest_ok();
}
