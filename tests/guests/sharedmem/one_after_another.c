// Many pieces of shared memory, each mapped, used and given back before the next: files, segments, memory that is moved,
// that something else is mapped over, or that two mappings show. (Replay has no more of them at a time than the program:
// crates/bis/tests/bad_input.rs replays it with few descriptors.)
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/shm.h>

#include "../guest.h"

#define PAGE 4096
#define ROUNDS 60

static unsigned sum;

static void use(volatile unsigned char *memory, int round) {
  CHECK(memory != MAP_FAILED);
  memory[17] += round;
  memory[PAGE + 1] ^= memory[17];
  sum = sum * 31 + memory[17] + memory[PAGE + 1];
}

static unsigned char *map(int fd) { return mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); }

int main(void) {
  for (int round = 0; round < ROUNDS; round++) {
    char name[32];
    snprintf(name, sizeof name, "file.%d", round % 7);
    int file = open(name, O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0 && ftruncate(file, 2 * PAGE) == 0);
    unsigned char *memory = map(file);
    use(memory, round);
    CHECK(munmap(memory, 2 * PAGE) == 0);
    // The same file is another piece of memory, as before.
    memory = map(file);
    use(memory, round);
    unsigned char *other = map(file);
    use(other, round);
    CHECK(munmap(memory, 2 * PAGE) == 0);
    use(other, round);
    CHECK(pwrite(file, "x", 1, 17) == 1);
    use(other, round);
    CHECK(mmap(other, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == other);
    CHECK(other[17] == 0 && munmap(other, 2 * PAGE) == 0);

    memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    use(memory, round);
    unsigned char *room = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED);
    memory = mremap(memory, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
    use(memory, round);
    CHECK(munmap(memory, PAGE) == 0);
    memory[PAGE + 5] = round;
    sum += memory[PAGE + 5];
    CHECK(munmap(memory + PAGE, PAGE) == 0);

    int segment = shmget(IPC_PRIVATE, 2 * PAGE, IPC_CREAT | 0600);
    memory = shmat(segment, NULL, 0);
    CHECK(shmctl(segment, IPC_RMID, NULL) == 0);
    use(memory, round);
    CHECK(shmdt(memory) == 0);

    // A child has it after its parent, or until it ends.
    memory = map(file);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      if (round % 20 == 0) usleep(2000);
      use(memory, round);
      _exit(memory[17] & 127);
    }
    if (round % 2 == 0) CHECK(munmap(memory, 2 * PAGE) == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    sum += WEXITSTATUS(status);
    if (round % 2 == 1) CHECK(munmap(memory, 2 * PAGE) == 0);
    close(file);
  }
  printf("%u\n", sum);
  return guest_ok();
}
