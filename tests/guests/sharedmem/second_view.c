// mremap with an old length of 0: a second mapping of the same pages, of memory of its own, of files that it
// may write, of one that nobody changes, of one that others change while both show it, of a segment; and what
// the kernel refuses.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/shm.h>

#include "../guest.h"

#define RW (PROT_READ | PROT_WRITE)

static char *again(char *memory, size_t len) {
  char *second = mremap(memory, 0, len, MREMAP_MAYMOVE);
  CHECK(second != MAP_FAILED && second != memory);
  return second;
}

// Both show what is stored through the other, also a child's.
static void both_ways(char *memory) {
  strcpy(memory + PAGE, "one");
  char *second = again(memory + PAGE, 2 * PAGE);
  CHECK(strcmp(second, "one") == 0);
  second[PAGE] = 'x';
  memory[PAGE + 5] = 'y';
  CHECK(memory[2 * PAGE] == 'x' && second[5] == 'y');
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    second[PAGE + 1] = 'c';
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0 && memory[2 * PAGE + 1] == 'c');
  CHECK(munmap(memory + PAGE, 3 * PAGE) == 0);
  // A third one, of the second, at a place of the program's choice.
  char *room = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mremap(second, 0, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room) == room);
  CHECK(strcmp(room, "one") == 0 && munmap(second, 2 * PAGE) == 0 && room[PAGE] == 'x');
  room[0] = 'O';
  CHECK(munmap(room, 2 * PAGE) == 0);
}

int main(void) {
  both_ways(mmap(NULL, 4 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0));

  static char text[4 * PAGE];
  memset(text, 'o', sizeof text);
  memcpy(text, "!<arch>\n", 8);
  make_file("written", text, sizeof text);
  int file = open("written", O_RDWR);
  both_ways(mmap(NULL, 4 * PAGE, RW, MAP_SHARED, file, 0));
  char *memory = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, file, 0);
  CHECK(memory[PAGE] == 'O');
  char *second = again(memory, 4 * PAGE);
  CHECK(pwrite(file, "two", 3, PAGE + 9) == 3);
  CHECK(memcmp(memory + PAGE + 9, "twoo", 4) == 0 && memcmp(second + PAGE + 9, "twoo", 4) == 0);

  // Of a file that nobody changes.
  int shell = open("/bin/sh", O_RDONLY);
  char first[16];
  CHECK(pread(shell, first, sizeof first, PAGE) == sizeof first);
  memory = mmap(NULL, 3 * PAGE, PROT_READ, MAP_SHARED, shell, 0);
  CHECK(memory != MAP_FAILED && memcmp(memory + PAGE, first, sizeof first) == 0);
  second = again(memory + PAGE, 2 * PAGE);
  CHECK(memcmp(second, first, sizeof first) == 0 && munmap(memory, 3 * PAGE) == 0);
  CHECK(memcmp(second, first, sizeof first) == 0 && second[PAGE + 1] + 0 == second[PAGE + 1]);
  // The same, to be executed.
  memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, shell, 0);
  second = again(memory + PAGE, PAGE);
  CHECK(memcmp(second, first, sizeof first) == 0 && munmap(second, PAGE) == 0);

  // Of an archive, which changes before the second mapping, and behind it.
  make_file("f.a", text, sizeof text);
  int archive = open("f.a", O_RDONLY), writer = open("f.a", O_RDWR);
  memory = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, archive, 0);
  CHECK(memory != MAP_FAILED && memory[PAGE] == 'o');
  second = again(memory + PAGE, 3 * PAGE);
  CHECK(second[0] == 'o' && pwrite(writer, "three", 5, PAGE) == 5);
  CHECK(memcmp(memory + PAGE, "threeo", 6) == 0 && memcmp(second, "threeo", 6) == 0);
  char *third = again(memory, 2 * PAGE);
  CHECK(memcmp(third + PAGE, "threeo", 6) == 0 && memcmp(third, text, PAGE) == 0);
  CHECK(pwrite(writer, "four", 4, 2 * PAGE - 4) == 4 && memcmp(third + 2 * PAGE - 4, "four", 4) == 0);
  CHECK(memcmp(second + PAGE - 4, "fouro", 5) == 0 && munmap(memory, 4 * PAGE) == 0);
  CHECK(ftruncate(writer, PAGE + 2) == 0 && memcmp(third + PAGE, "th\0", 4) == 0);

  // Of a segment. The kernel counts both.
  int segment = shmget(IPC_PRIVATE, 2 * PAGE, IPC_CREAT | 0600);
  memory = shmat(segment, NULL, 0);
  CHECK(memory != (char *)-1);
  second = again(memory, 2 * PAGE);
  struct shmid_ds about;
  CHECK(shmctl(segment, IPC_STAT, &about) == 0 && about.shm_nattch == 2);
  second[PAGE] = 's';
  CHECK(memory[PAGE] == 's' && shmctl(segment, IPC_RMID, NULL) == 0);
  CHECK(shmdt(memory) == 0 && second[PAGE] == 's' && shmdt(second) == 0);

  // Private memory has no second mapping, nor what is not there, nor is it made in place.
  memory = mmap(NULL, 2 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK_ERRNO((long)mremap(memory, 0, PAGE, MREMAP_MAYMOVE), EINVAL);
  second = mmap(NULL, PAGE, RW, MAP_PRIVATE, file, 0);
  CHECK_ERRNO((long)mremap(second, 0, PAGE, MREMAP_MAYMOVE), EINVAL);
  CHECK(munmap(memory, 2 * PAGE) == 0);
  CHECK_ERRNO((long)mremap(memory, 0, PAGE, MREMAP_MAYMOVE), EFAULT);
  memory = mmap(NULL, 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  strcpy(memory, "still");
  CHECK_ERRNO((long)mremap(memory, 0, PAGE, 0), ENOMEM);
  CHECK_ERRNO((long)mremap(memory, 0, 0, MREMAP_MAYMOVE), EINVAL);
  CHECK(strcmp(memory, "still") == 0);
  return guest_ok();
}
