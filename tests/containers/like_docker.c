// Runs a command as Docker does without options: under a filter that refuses what its default profile refuses, but for what
// that leaves to privileges which this machine's root has. usage: like_docker COMMAND...
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sock_filter code[512];
static unsigned short count;

static void add(struct sock_filter instruction) { code[count++] = instruction; }
static void load(size_t at) { add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)at)); }
static void answer(unsigned what) { add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what)); }
static void unless(unsigned word, unsigned char skipped) {
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word, 0, skipped));
}
static void unless_any(unsigned bits, unsigned char skipped) {
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, skipped));
}

static void refuse(unsigned nr, int error) {
  load(offsetof(struct seccomp_data, nr));
  unless(nr, 1);
  answer(SECCOMP_RET_ERRNO | error);
}

int main(int argc, char **argv) {
  static const unsigned denied[] = {
    SYS_acct, SYS_add_key, SYS_bpf, SYS_chroot, SYS_delete_module, SYS_finit_module, SYS_fsconfig, SYS_fsmount, SYS_fsopen, SYS_fspick,
    SYS_get_mempolicy, SYS_init_module, SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup, SYS_ioperm, SYS_iopl, SYS_kcmp,
    SYS_kexec_file_load, SYS_kexec_load, SYS_keyctl, SYS_lookup_dcookie, SYS_mbind, SYS_mount, SYS_mount_setattr, SYS_move_mount,
    SYS_move_pages, SYS_name_to_handle_at, SYS_nfsservctl, SYS_open_by_handle_at, SYS_open_tree, SYS_perf_event_open, SYS_pivot_root,
    SYS_quotactl, SYS_quotactl_fd, SYS_reboot, SYS_request_key, SYS_set_mempolicy, SYS_setns, SYS_settimeofday, SYS_swapoff, SYS_swapon,
    SYS_syslog, SYS_umount2, SYS_unshare, SYS_uselib, SYS_userfaultfd, SYS_ustat, SYS_vhangup,
    // From kernel 4.8 on Docker allows them; other containers do not.
    SYS_process_vm_readv, SYS_process_vm_writev,
  };
  static const unsigned personalities[] = {0, 8, 0x20000, 0x20008, 0xffffffff};
  if (argc < 2) return 2;
  // Programs of 32 bits have other numbers.
  load(offsetof(struct seccomp_data, arch));
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
  answer(SECCOMP_RET_ALLOW);
  for (size_t i = 0; i < sizeof denied / sizeof *denied; i++) refuse(denied[i], EPERM);
  refuse(SYS_clone3, ENOSYS);
  load(offsetof(struct seccomp_data, nr));
  unless(SYS_clone, 3);
  load(offsetof(struct seccomp_data, args[0]));
  unless_any(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET, 1);
  answer(SECCOMP_RET_ERRNO | EPERM);
  load(offsetof(struct seccomp_data, nr));
  unless(SYS_socket, 3);
  load(offsetof(struct seccomp_data, args[0]));
  unless(40 /* AF_VSOCK */, 1);
  answer(SECCOMP_RET_ERRNO | EPERM);
  load(offsetof(struct seccomp_data, nr));
  unless(SYS_personality, 1 + 2 * sizeof personalities / sizeof *personalities + 1);
  load(offsetof(struct seccomp_data, args[0]));
  for (size_t i = 0; i < sizeof personalities / sizeof *personalities; i++) {
    unless(personalities[i], 1);
    answer(SECCOMP_RET_ALLOW);
  }
  answer(SECCOMP_RET_ERRNO | EPERM);
  answer(SECCOMP_RET_ALLOW);
  struct sock_fprog program = {count, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("like_docker: no filter");
    return 1;
  }
  execvp(argv[1], argv + 1);
  perror(argv[1]);
  return 127;
}
