// cflags: -m32
// needs: /usr/lib32/crt1.o
// Files: their state, positions, and locks, with 32-bit offsets.
#include "../guest.h"
#include <sys/statfs.h>
#include <sys/time.h>
#include <utime.h>

static void locks(int fd) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 20};
  CHECK(fcntl(fd, F_SETLK, &lock) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    struct flock asked = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    CHECK(fcntl(fd, F_GETLK, &asked) == 0);
    CHECK(asked.l_type == F_WRLCK && asked.l_start == 10 && asked.l_len == 20 && asked.l_pid == getppid());
    asked = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 15, .l_len = 1};
    CHECK_ERRNO(fcntl(fd, F_SETLK, &asked), EAGAIN);
    _exit(0);
  }
  check_exited(child, 0);
  lock.l_type = F_UNLCK;
  CHECK(fcntl(fd, F_SETLK, &lock) == 0);
  CHECK(fcntl(fd, F_GETLK, &(struct flock){.l_type = F_WRLCK}) == 0);
}

int main(void) {
  char data[1000];
  for (int i = 0; i < 1000; i++) data[i] = (char)(i * 7);
  make_file("file", data, sizeof data);
  struct stat st;
  CHECK(stat("file", &st) == 0);
  CHECK(st.st_size == 1000 && S_ISREG(st.st_mode) && (st.st_mode & 0777) == (0644 & ~umask(022)));
  CHECK(st.st_nlink == 1 && st.st_uid == getuid() && st.st_gid == getgid());
  CHECK(symlink("file", "link") == 0 && lstat("link", &st) == 0 && S_ISLNK(st.st_mode) && st.st_size == 4);
  CHECK_ERRNO(stat("nothing", &st), ENOENT);
  int fd = open("file", O_RDWR);
  CHECK(fd >= 0 && fstat(fd, &st) == 0 && st.st_size == 1000);
  CHECK(lseek(fd, -10, SEEK_END) == 990);
  char got[1000];
  CHECK(read(fd, got, 100) == 10 && memcmp(got, data + 990, 10) == 0);
  CHECK(pread(fd, got, 300, 500) == 300 && memcmp(got, data + 500, 300) == 0);
  CHECK(lseek(fd, 0, SEEK_CUR) == 1000);
  CHECK_ERRNO(lseek(fd, -1, SEEK_SET), EINVAL);
  CHECK(pwrite(fd, "hello", 5, 100) == 5 && pread(fd, got, 5, 100) == 5 && memcmp(got, "hello", 5) == 0);
  locks(fd);
  CHECK(ftruncate(fd, 600) == 0 && fstat(fd, &st) == 0 && st.st_size == 600);
  CHECK(truncate("file", 700) == 0 && fstat(fd, &st) == 0 && st.st_size == 700);
  CHECK(posix_fallocate(fd, 0, 2000) == 0 && fstat(fd, &st) == 0 && st.st_size == 2000);
  CHECK(posix_fadvise(fd, 0, 100, POSIX_FADV_RANDOM) == 0);
  CHECK(utime("file", &(struct utimbuf){1000, 2000}) == 0);
  CHECK(stat("file", &st) == 0 && st.st_atime == 1000 && st.st_mtime == 2000);
  CHECK(utimes("file", (struct timeval[]){{3000, 5}, {4000, 6}}) == 0);
  CHECK(stat("file", &st) == 0 && st.st_mtim.tv_sec == 4000 && st.st_mtim.tv_nsec == 6000);
  CHECK(futimens(fd, (struct timespec[]){{0, UTIME_OMIT}, {5000, 7}}) == 0);
  CHECK(stat("file", &st) == 0 && st.st_atim.tv_sec == 3000 && st.st_mtim.tv_nsec == 7);
  struct statfs fs;
  CHECK(statfs("/proc", &fs) == 0 && fs.f_type == 0x9fa0 && fs.f_bsize == 4096);
  CHECK(chown("file", (uid_t)-1, (gid_t)-1) == 0);
  CHECK(rename("file", "other") == 0 && access("other", R_OK) == 0 && unlink("other") == 0);
  printf("digest %016llx\n", (unsigned long long)digest(data, sizeof data));
  return guest_ok();
}
