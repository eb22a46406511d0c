// Code that a program writes, runs, writes again and runs, with system calls in it: at one address, in memory that is
// mapped twice, from threads, and in a copy of a file's text.
#include "../guest.h"

typedef long (*code_fn)(void);

// mov eax, nr; xor edi, edi; syscall; add rax, imm8; ret
static size_t emit(unsigned char *at, int nr, signed char add) {
  unsigned char code[] = {0xb8, 0, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05, 0x48, 0x83, 0xc0, 0, 0xc3};
  memcpy(code + 1, &nr, 4);
  code[12] = (unsigned char)add;
  memcpy(at, code, sizeof code);
  return sizeof code;
}

static unsigned char *code;
static void *in_thread(void *arg) {
  long mine = (long)arg;
  unsigned char *at = code + 256 * (mine + 1);
  for (int i = 0; i < 100; i++) {
    emit(at, SYS_gettid, (signed char)(i % 100));
    CHECK(((code_fn)at)() == tid_self() + i % 100);
  }
  return NULL;
}

int main(void) {
  int fd = memfd_create("code", 0);
  CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0);
  code = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  for (int i = 0; i < 200; i++) {
    // The same place is another call each time, then no call at all.
    emit(code, i % 2 ? SYS_getpid : SYS_getppid, (signed char)(i % 100));
    long expected = (i % 2 ? getpid() : getppid()) + i % 100;
    CHECK(((code_fn)code)() == expected && ((code_fn)code)() == expected);
    memcpy(code + 7, "\x90\x90", 2);
    CHECK(((code_fn)code)() == (i % 2 ? SYS_getpid : SYS_getppid) + i % 100);
  }
  // Written through one mapping, run through another.
  unsigned char *w = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  unsigned char *x = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  CHECK(w != MAP_FAILED && x != MAP_FAILED);
  for (int i = 0; i < 50; i++) {
    emit(w + 16 * (i % 3), i % 2 ? SYS_getpid : SYS_gettid, 3);
    CHECK(((code_fn)(x + 16 * (i % 3)))() == getpid() + 3);
  }
  // Threads, each at its own place of one page.
  pthread_t t[3];
  for (long i = 0; i < 3; i++) t[i] = start_thread(in_thread, (void *)i);
  for (int i = 0; i < 3; i++) join_thread(t[i]);
  // A file that holds code, mapped twice with other content between.
  unsigned char image[PAGE] = {0};
  for (int i = 0; i < 6; i++) {
    emit(image, i % 2 ? SYS_getpid : SYS_getppid, (signed char)i);
    char name[16];
    snprintf(name, sizeof name, "code%d", i % 2);
    make_file(name, image, sizeof image);
    int file = open(name, O_RDONLY);
    unsigned char *run = mmap(code + PAGE, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 0);
    CHECK(run == code + PAGE);
    for (int k = 0; k < 5; k++) CHECK(((code_fn)run)() == (i % 2 ? getpid() : getppid()) + i);
    CHECK(close(file) == 0);
  }
  // A process that is forked has the same code, and changes its own.
  emit(code, SYS_getpid, 1);
  pid_t child = fork();
  if (child == 0) {
    CHECK(((code_fn)code)() == getpid() + 1);
    emit(code, SYS_getppid, 2);
    CHECK(((code_fn)code)() == getppid() + 2);
    _exit(0);
  }
  CHECK(((code_fn)code)() == getpid() + 1);
  check_exited(child, 0);
  printf("%p %d\n", (void *)code, getpid());
  return guest_ok();
}
