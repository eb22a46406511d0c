// Private file mappings: content, offsets, copy on write, the tail of the last page.
#include "../guest.h"

int main(void) {
  char data[2 * PAGE + 100];
  for (size_t i = 0; i < sizeof data; i++) data[i] = 'a' + i % 23;
  make_file("f", data, sizeof data);
  int fd = open("f", O_RDWR);
  char *m = mmap(NULL, sizeof data, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  char *n = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 2 * PAGE);
  CHECK(m != MAP_FAILED && n != MAP_FAILED);
  CHECK(memcmp(m, data, sizeof data) == 0 && memcmp(n, data + 2 * PAGE, 100) == 0);
  for (int i = 100; i < PAGE; i++) CHECK(n[i] == 0);
  m[5] = '!';
  m[PAGE + 5] = '!';
  char c;
  CHECK(pread(fd, &c, 1, 5) == 1 && c == data[5]);
  CHECK_ERRNO((long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 100), EINVAL);
  close(fd);
  CHECK(m[5] == '!' && m[PAGE + 6] == data[PAGE + 6]);
  // Mapping the program itself.
  int exe = open("/proc/self/exe", O_RDONLY);
  char *e = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, exe, 0);
  CHECK(e != MAP_FAILED && memcmp(e, "\177ELF", 4) == 0);
  int ro = open("f", O_RDONLY);
  CHECK_ERRNO((long)mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, ro, 0), EACCES);
  printf("%p %p %p %lx\n", m, n, e, digest(e, PAGE));
  return guest_ok();
}
