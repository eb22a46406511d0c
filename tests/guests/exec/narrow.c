// A 32-bit program, and a script whose interpreter is one: each runs, or (without CONFIG_IA32_EMULATION) its exec fails with ENOEXEC and the process that
// made it goes on. (The shell takes a file with that error for a script of its own: `posix_spawn` and execve tell.)
#include "../guest.h"

#include <elf.h>
#include <spawn.h>

// exit(7), by the 32-bit table of calls.
static const unsigned char code[] = {0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80};

static void write_file(const char *name, const void *bytes, size_t len) {
  unlink(name);
  int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0755);
  CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && close(fd) == 0);
}

static void write_program(const char *name) {
  struct {
    Elf32_Ehdr head;
    Elf32_Phdr load;
    unsigned char code[sizeof code];
  } file = {
      .head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
               .e_type = ET_EXEC,
               .e_machine = EM_386,
               .e_version = EV_CURRENT,
               .e_ehsize = sizeof(Elf32_Ehdr),
               .e_phoff = sizeof(Elf32_Ehdr),
               .e_phentsize = sizeof(Elf32_Phdr),
               .e_phnum = 1},
      .load = {.p_type = PT_LOAD, .p_vaddr = 0x8048000, .p_flags = PF_R | PF_X, .p_align = PAGE},
  };
  size_t before = sizeof file.head + sizeof file.load;
  memcpy(file.code, code, sizeof code);
  file.head.e_entry = 0x8048000 + before;
  file.load.p_filesz = file.load.p_memsz = before + sizeof code;
  write_file(name, &file, before + sizeof code);
}

static void check_spawned(const char *name) {
  char *args[] = {(char *)name, NULL};
  pid_t p;
  int error = posix_spawn(&p, name, NULL, NULL, args, environ);
  CHECK(error == 0 || error == ENOEXEC);
  printf("%s is spawned: %d\n", name, error);
  if (error == 0) check_exited(p, 7);
}

static void check_executed(const char *name, int by_fd) {
  char *args[] = {(char *)name, NULL};
  pid_t p = fork();
  if (p == 0) {
    int fd = open(name, O_RDONLY);
    if (by_fd) syscall(SYS_execveat, fd, "", args, environ, AT_EMPTY_PATH);
    else execve(name, args, environ);
    _exit(errno == ENOEXEC ? 7 : 1);
  }
  check_exited(p, 7);
}

int main(void) {
  write_program("32bit");
  const char script[] = "#! ./32bit -x\n";
  write_file("script", script, strlen(script));
  check_spawned("./32bit");
  check_spawned("./script");
  check_executed("./32bit", 0);
  check_executed("./32bit", 1);
  check_executed("./script", 0);
  // Without the right to be executed, that comes first.
  CHECK(chmod("32bit", 0644) == 0);
  char *args[] = {"32bit", NULL};
  CHECK_ERRNO(execve("./32bit", args, environ), EACCES);
  return guest_ok();
}
