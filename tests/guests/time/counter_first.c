// Each way to executable memory that no file shows, as the first thing that a process does: a child for each, which reads
// the counter with its own instruction and with the new one. What the parent does must not close the matter for them.
#include "counter.h"

#include <sys/shm.h>

typedef uint64_t read_fn(void);
static const unsigned char CODE[] = {0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3};
static const unsigned char CODE_P[] = {0x0f, 0x01, 0xf9, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3};

static unsigned char *plain(int prot, int flags) {
  unsigned char *at = mmap(NULL, PAGE, prot, flags | MAP_ANONYMOUS, -1, 0);
  CHECK(at != MAP_FAILED);
  return at;
}

static void *from_mprotect(void) {
  unsigned char *at = memcpy(plain(PROT_READ | PROT_WRITE, MAP_PRIVATE), CODE, sizeof CODE);
  CHECK(mprotect(at, PAGE, PROT_EXEC) == 0);
  return at;
}

static void *from_mmap(void) { return memcpy(plain(7, MAP_PRIVATE), CODE_P, sizeof CODE_P); }

static void *from_file(void) {
  make_file("made", CODE, sizeof CODE);
  int fd = open("made", O_RDONLY);
  void *at = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  CHECK(fd >= 0 && at != MAP_FAILED && close(fd) == 0);
  return at;
}

static void *from_memfd(void) {
  int fd = memfd_create("code", 0);
  CHECK(fd >= 0 && write(fd, CODE, sizeof CODE) == sizeof CODE);
  void *at = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  CHECK(at != MAP_FAILED);
  return at;
}

static void *from_shm(void) {
  int id = shmget(IPC_PRIVATE, PAGE, 0700);
  CHECK(id >= 0);
  unsigned char *write_here = shmat(id, NULL, 0);
  CHECK(write_here != (void *)-1);
  memcpy(write_here, CODE, sizeof CODE);
  void *at = shmat(id, NULL, SHM_EXEC | SHM_RDONLY);
  CHECK(at != (void *)-1);
  CHECK(shmctl(id, IPC_RMID, NULL) == 0);
  return at;
}

// The program's own text, written over: a page of it that has nothing else.
__asm__(".text\n.balign 4096\nown: .fill 4096, 1, 0x90\n");
extern unsigned char own[];

static void *from_text(void) {
  CHECK(mprotect(own, PAGE, PROT_READ | PROT_WRITE) == 0);
  memcpy(own, CODE, sizeof CODE);
  CHECK(mprotect(own, PAGE, PROT_READ | PROT_EXEC) == 0);
  return own;
}

// Whatever has been written over a file's text goes away.
static void *from_madvise(void) {
  uintptr_t page = (uintptr_t)read_often & -(uintptr_t)PAGE;
  CHECK(madvise((void *)page, 2 * PAGE, MADV_DONTNEED) == 0);
  read_often(10);
  return from_mprotect();
}

static void *from_bss(void) {
  static unsigned char space[3 * PAGE];
  unsigned char *at = (unsigned char *)(((uintptr_t)space + PAGE) & -(uintptr_t)PAGE);
  memcpy(at, CODE, sizeof CODE);
  CHECK(mprotect(at, PAGE, 7) == 0);
  return at;
}

int main(void) {
  void *(*const ways[])(void) = {from_mprotect, from_mmap,        from_file, from_memfd,   from_shm,
                                 from_text,     from_madvise, from_bss};
  printf("mixed %lx\n", read_often(100));
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      uint64_t before = read_often(5);
      read_fn *made = (read_fn *)ways[i]();
      uint64_t a = rdtsc(), b = made(), c = made(), d = rdtsc();
      int64_t ns = now_ns();
      CHECK(a < b && b < c && c < d);
      printf("way %zu: %lx %lu %lu %ld\n", i, before, b, c, ns);
      fflush(stdout);
      _exit(0);
    }
    check_exited(pid, 0);
    read_often(10);
  }
  return guest_ok();
}
