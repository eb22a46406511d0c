// Programs that die of their first instruction, because there is none where they begin; and ones that the kernel kills when it has
// gone too far to go back.
#include "../guest.h"
#include <elf.h>

static int end_of(const char *name, uint64_t vaddr, uint64_t memsz, uint64_t entry, uint32_t flags) {
  Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                       .e_type = ET_EXEC, .e_machine = EM_X86_64, .e_version = EV_CURRENT, .e_entry = entry,
                       .e_phoff = 64, .e_ehsize = 64, .e_phentsize = 56, .e_phnum = 1};
  Elf64_Phdr load = {.p_type = PT_LOAD, .p_flags = flags, .p_align = PAGE, .p_vaddr = vaddr,
                     .p_filesz = PAGE, .p_memsz = memsz};
  static char page[PAGE];
  memcpy(page, &header, sizeof header);
  memcpy(page + 64, &load, sizeof load);
  int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0700);
  CHECK(fd >= 0 && write(fd, page, PAGE) == PAGE && close(fd) == 0);
  pid_t child = fork();
  if (child == 0) {
    execl(name, name, NULL);
    _exit(errno == ENOEXEC || errno == EINVAL || errno == ENOMEM ? 77 : 78);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

int main(void) {
  const uint64_t usual = 0x400000;
  int statuses[] = {
      end_of("unmapped", usual, PAGE, 0x600000, PF_R | PF_X),
      end_of("zero", usual, PAGE, 0, PF_R | PF_X),
      end_of("not_executable", usual, PAGE, usual + 200, PF_R),
      end_of("of_the_kernel", usual, PAGE, 0xffffffff80000000, PF_R | PF_X),
      end_of("no_instruction", usual, PAGE, usual + 1000, PF_R | PF_X),
      end_of("too_large", 0x7fffffffe000, 1ull << 40, 0x7fffffffe100, PF_R | PF_X),
      end_of("at_the_stack", 0x7ffffffde000, 0x20000, 0x7ffffffde100, PF_R | PF_X),
  };
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
    CHECK(statuses[i] != 0);
    printf("%x ", statuses[i]);
  }
  puts("");
  CHECK(WIFSIGNALED(statuses[0]) && WTERMSIG(statuses[0]) == SIGSEGV);
  CHECK(WIFSIGNALED(statuses[2]) && WTERMSIG(statuses[2]) == SIGSEGV);
  return guest_ok();
}
