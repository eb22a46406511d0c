// What is known of descriptors and files, to tell the calls that concern nobody but the kernel.
#pragma once

#include "words.h"

#define FD_CLASS ((volatile u8 *)FD_CLASS_BASE)
#define FILES ((volatile u64 *)FILES_BASE)
#define COPIED ((volatile u8 *)COPIED_BASE)

// Is this file one that somebody has mapped? Recording only: in replay, it says nothing.
static inline u64 is_mapped(u64 dev, u64 ino) {
  u64 bit = (ino * FILE_OF_INODE ^ dev * FILE_OF_DEVICE) >> FILE_SHIFT;
  return FILES[bit / 64] >> (bit % 64) & 1 & is(S->watched);
}

static inline u64 fd_class(u64 fd) {
  fd = (u32)fd;
  u64 inside = below(fd, FDS);
  return FD_CLASS[fd & (FDS - 1)] & -(inside & !is(S->no_fds));
}

static inline void set_class(u64 fd, u64 class) {
  fd = (u32)fd;
  if (fd >= FDS) return;
  FD_CLASS[fd] = class;
  COPIED[fd >> 3] &= ~(1 << (fd & 7));
}

// Is this a read of which the supervisor may clone the blocks?
static inline u64 is_clonable(u64 fd, u64 len) {
  if (len < CLONE_BYTES_MIN) return 0;
  fd = (u32)fd;
  u64 copied = COPIED[(fd & (FDS - 1)) >> 3] >> (fd & 7) & below(fd, FDS);
  return below(S->clone_min - 1, len) & ~copied;
}

// A file was opened to be written, or was `cut`.
void hooks_classify(u64 fd, u64 cut);
