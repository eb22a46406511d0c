// Vectors and messages: structures in the program's memory that say where more of it is.
//
// What the kernel would read twice is read once, here: the array of vectors, the header of a message. A program may
// have its results written over them. Vectors become one, in the log, and what came is spread over the program's own
// afterwards; so the kernel sees one long buffer, which no kind of file distinguishes from many.

#include "plan.h"

// Messages with more than this of control data are left to be traced.
#define CONTROL_MAX 4096
#define NAME_MAX 128

// The pieces of a received message. The data come last: their length is the result.
enum { HEADER, CONTROL, NAME, DATA };

static void give(struct plan *p, u64 i, u64 kind, u64 user, u64 cap) {
  p->piece[i].kind = kind;
  p->user[i] = user;
  p->cap[i] = cap;
}

// Can all of it be written? The first and the last byte stand for it.
static u64 is_there(u64 user, u64 len) {
  return !user || !len || !hooks_touch((void *)user, len);
}

// The vectors at `array` become piece `i`.
u64 hooks_plan_vectors(struct plan *p, u64 i, u64 array, u64 count) {
  const u64 *vector = (const u64 *)VECTORS;
  u64 total = 0;
  if (count > VECTORS_MAX || hooks_copy((void *)VECTORS, (void *)array, count * 16)) return 0;
  for (u64 k = 0; k < count; k++, vector += 2) {
    if (vector[1] > CAP_MAX || (total += vector[1]) > CAP_MAX) return 0;
    if (vector[1] && !is_there(vector[0], vector[1])) return 0;
  }
  p->vectors = count;
  give(p, i, GIVEN_RET, VECTORS, total);
  return 1;
}

u64 hooks_plan_message(struct plan *p) {
  u64 header[7], user = p->args[1];
  if (!is_there(user, sizeof header) || hooks_copy(header, (void *)user, sizeof header)) return 0;
  u64 name_len = (u32)header[1], control_len = header[5];
  // The kernel refuses a negative length, and takes no more than NAME_MAX.
  if ((name_len >> 31) || control_len > CONTROL_MAX) return 0;
  name_len = name_len < NAME_MAX ? name_len : NAME_MAX;
  if (!is_there(header[0], name_len) || !is_there(header[4], control_len)) return 0;
  p->pieces = 4;
  give(p, HEADER, GIVEN_IN, user, sizeof header);
  give(p, CONTROL, GIVEN_IN, header[4], control_len);
  give(p, NAME, GIVEN_OUT, header[0], name_len);
  return hooks_plan_vectors(p, DATA, header[2], header[3]);
}

// `left` bytes from `from` on go to these vectors.
static u64 spread(const u64 *vector, u64 count, u64 from, u64 left) {
  u64 bad = 0;
  for (u64 k = 0; k < count && left; k++, vector += 2) {
    u64 n = least(vector[1], left);
    if (n) bad |= hooks_copy((void *)vector[0], (void *)from, n);
    from += n;
    left -= n;
  }
  return bad;
}

// Several messages (recvmmsg). The kernel writes them into the second half of what the entry may take; what came is put together
// in the first, message by message: header, control data, name, data, each on 8 bytes. In replay it is there already.
struct wanted {
  u64 name, name_len, control, control_len, vectors, len;
};

u64 hooks_plan_messages(struct plan *p) {
  u64 user = p->args[1], count = (u32)p->args[2], flags = p->args[3], used = 0;
  struct wanted *it = (struct wanted *)MANY;
  // A limit to its time is looked at between messages.
  if (!count || count > MANY_MAX || p->args[4] || !is_there(user, count * 64)) return 0;
  p->room = count * 64;
  for (u64 i = 0; i < count; i++, it++) {
    u64 header[7];
    if (hooks_copy(header, (void *)(user + i * 64), sizeof header)) return 0;
    *it = (struct wanted){header[0], (u32)header[1], header[4], header[5], header[3], 0};
    if ((it->name_len >> 31) || it->control_len > CONTROL_MAX || it->vectors > VECTORS_MAX - used) return 0;
    it->name_len = least(it->name_len, NAME_MAX);
    if (!is_there(it->name, it->name_len) || !is_there(it->control, it->control_len)) return 0;
    u64 *vector = (u64 *)VECTORS + 2 * used;
    if (hooks_copy(vector, (void *)header[2], it->vectors * 16)) return 0;
    used += it->vectors;
    for (u64 k = 0; k < it->vectors; k++, vector += 2) {
      if (vector[1] > CAP_MAX || (it->len += vector[1]) > CAP_MAX) return 0;
      if (vector[1] && !is_there(vector[0], vector[1])) return 0;
    }
    p->room += ALIGN8(it->control_len) + ALIGN8(it->name_len) + ALIGN8(it->len);
    if (p->room > CAP_MAX / 2) return 0;
  }
  p->many = user;
  p->pieces = 1;
  give(p, 0, GIVEN_RET, VECTORS, 2 * p->room);
  // It would wait for all of them.
  p->asks = count > 1 && !(flags & (MSG_DONTWAIT | MSG_WAITFORONE));
  return 1;
}

static void link_messages(struct plan *p) {
  u64 at = p->place[0] + p->room, count = (u32)p->args[2];
  const struct wanted *it = (const struct wanted *)MANY;
  // In replay the log holds what came behind it, too.
  u64 *header = (u64 *)pick(SCRATCH_BASE, at), *vector = (u64 *)MANY_VECTORS;
  p->args[1] = (u64)header;
  at += count * 64;
  for (u64 i = 0; i < count; i++, it++, header += 8, vector += 2) {
    header[4] = it->control ? at : 0;
    header[5] = it->control_len;
    at += ALIGN8(it->control_len);
    header[0] = it->name ? at : 0;
    header[1] = it->name_len;
    at += ALIGN8(it->name_len);
    vector[0] = at;
    vector[1] = it->len;
    at += ALIGN8(it->len);
    header[2] = (u64)vector;
    header[3] = 1;
    header[6] = header[7] = 0;
  }
}

// The kernel's bytes go to where they stay.
static u64 keep(u64 to, u64 from, u64 len) {
  hooks_copy((void *)to, (void *)pick(to, from), len);
  return to + ALIGN8(len);
}

static u64 scatter_messages(struct plan *p, i64 result) {
  u64 to = p->place[0], header_at = to + p->room, count = (u32)p->args[2];
  u64 at = header_at + count * 64, user = p->many, bad = 0;
  const struct wanted *it = (const struct wanted *)MANY;
  const u64 *vector = (const u64 *)VECTORS;
  for (u64 i = 0; i < least(result, count); i++, it++, header_at += 64, user += 64) {
    const u64 *header = (const u64 *)to;
    to = keep(to, header_at, 64);
    u64 control_len = it->control ? least(header[5], it->control_len) : 0;
    u64 name_len = it->name ? least((u32)header[1], it->name_len) : 0;
    u64 len = least((u32)header[7], it->len);
    u64 control = to;
    to = keep(to, at, control_len);
    at += ALIGN8(it->control_len);
    bad |= hooks_copy((void *)it->control, (void *)control, control_len);
    u64 name = to;
    to = keep(to, at, name_len);
    at += ALIGN8(it->name_len);
    if (it->name) {
      bad |= hooks_copy((void *)it->name, (void *)name, name_len);
      bad |= hooks_copy((void *)(user + 8), &header[1], 4);
    }
    u64 data = to;
    to = keep(to, at, len);
    at += ALIGN8(it->len);
    bad |= spread(vector, it->vectors, data, len);
    vector += 2 * it->vectors;
    bad |= hooks_copy((void *)(user + 40), &header[5], 8);
    bad |= hooks_copy((void *)(user + 48), &header[6], 4);
    bad |= hooks_copy((void *)(user + 56), &header[7], 4);
  }
  p->took = to - p->place[0];
  return bad;
}

void hooks_link(struct plan *p) {
  if (p->row->shape == MESSAGES) {
    link_messages(p);
    return;
  }
  u64 *one = (u64 *)ONE_VECTOR;
  u64 data = p->row->shape == MESSAGE ? DATA : 0;
  one[0] = p->place[data];
  one[1] = p->cap[data];
  if (p->row->shape == MESSAGE) {
    u64 *header = (u64 *)p->place[HEADER];
    header[0] = p->user[NAME] ? p->place[NAME] : 0;
    header[2] = ONE_VECTOR;
    header[3] = 1;
    header[4] = p->user[CONTROL] ? p->place[CONTROL] : 0;
    p->args[1] = (u64)header;
  } else {
    p->args[1] = ONE_VECTOR;
    p->args[2] = 1;
  }
}

u64 hooks_scatter(struct plan *p, i64 result) {
  if (p->row->shape == MESSAGES) return scatter_messages(p, result);
  u64 data = p->row->shape == MESSAGE ? DATA : 0;
  u64 len = least(result, p->cap[data]);
  p->took = ALIGN8(len);
  u64 bad = spread((const u64 *)VECTORS, p->vectors, p->place[data], len);
  if (p->row->shape != MESSAGE) return bad;
  const u64 *header = (const u64 *)p->place[HEADER];
  u64 user = p->user[HEADER];
  if (p->user[CONTROL])
    bad |= hooks_copy((void *)p->user[CONTROL], (void *)p->place[CONTROL], least(header[5], p->cap[CONTROL]));
  if (p->user[NAME]) {
    bad |= hooks_copy((void *)p->user[NAME], (void *)p->place[NAME], least((u32)header[1], p->cap[NAME]));
    bad |= hooks_copy((void *)(user + 8), &header[1], 4);
  }
  bad |= hooks_copy((void *)(user + 40), &header[5], 8);
  bad |= hooks_copy((void *)(user + 48), &header[6], 4);
  return bad;
}
