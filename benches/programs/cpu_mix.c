// What a single thread computes in a day: recursion, sorting, floating point, checksums, hashing, matrices, a sieve,
// formatting, and lists on the heap. It makes almost no system calls, so it shows what recording costs where there
// is nothing to record. usage: cpu_mix SCALE      prints one line for each part, the same in every run
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252ull;

static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

static unsigned ackermann_like(unsigned depth, unsigned width) {
  if (depth == 0) return width;
  unsigned sum = 0;
  for (unsigned i = 0; i < 3; i++) sum += ackermann_like(depth - 1, width + i);
  return sum;
}

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static uint32_t sorted_median(size_t count) {
  uint32_t *values = malloc(count * sizeof *values);
  for (size_t i = 0; i < count; i++) values[i] = (uint32_t)next();
  qsort(values, count, sizeof *values, ascending);
  uint32_t median = values[count / 2];
  free(values);
  return median;
}

static double pendulum(int steps) {
  double angle = 2.0, speed = 0.0;
  for (int i = 0; i < steps; i++) {
    speed -= 9.81 * sin(angle) * 1e-4 + speed * 1e-6;
    angle += speed * 1e-4;
  }
  return angle;
}

static uint32_t adler(size_t size) {
  unsigned char *bytes = malloc(size);
  for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)(i * 31 >> 3);
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < size; i++) {
    a = (a + bytes[i]) % 65521;
    b = (b + a) % 65521;
  }
  free(bytes);
  return b << 16 | a;
}

static uint64_t probes(size_t keys) {
  size_t mask = (1u << 20) - 1;
  uint64_t *table = calloc(mask + 1, sizeof *table), steps = 0;
  for (size_t i = 0; i < keys; i++) {
    uint64_t key = next() % 600000 + 1, at = key * 0x9E3779B97F4A7C15ull >> 44;
    while (table[at & mask] != 0 && table[at & mask] != key) at++, steps++;
    table[at & mask] = key;
  }
  free(table);
  return steps;
}

static double product(int n) {
  double *a = malloc(sizeof *a * n * n), *b = malloc(sizeof *b * n * n), *c = calloc((size_t)n * n, sizeof *c);
  for (int i = 0; i < n * n; i++) a[i] = i % 11, b[i] = i % 13;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
  double trace = 0;
  for (int i = 0; i < n; i++) trace += c[i * n + i];
  free(a), free(b), free(c);
  return trace;
}

static size_t primes(size_t limit) {
  char *composite = calloc(limit, 1);
  size_t found = 0;
  for (size_t i = 2; i < limit; i++) {
    if (composite[i]) continue;
    found++;
    for (size_t j = i * i; j < limit; j += i) composite[j] = 1;
  }
  free(composite);
  return found;
}

static size_t formatted(int lines) {
  char line[128];
  size_t total = 0;
  for (int i = 0; i < lines; i++) {
    snprintf(line, sizeof line, "%d:%08x:%.3f:%s", i, i * 2654435761u, i / 7.0, "words");
    total += strlen(line) + (size_t)(strrchr(line, ':') - line);
  }
  return total;
}

struct node { struct node *next; uint64_t value; };

static uint64_t lists(int rounds) {
  uint64_t sum = 0;
  for (int round = 0; round < rounds; round++) {
    struct node *head = NULL;
    for (int i = 0; i < 1000; i++) {
      struct node *node = malloc(sizeof *node);
      node->next = head, node->value = (uint64_t)i * round, head = node;
    }
    while (head) {
      struct node *next = head->next;
      sum += head->value;
      free(head);
      head = next;
    }
  }
  return sum;
}

int main(int argc, char **argv) {
  int scale = argc > 1 ? atoi(argv[1]) : 10;
  unsigned recursion = 0;
  for (int i = 0; i < scale; i++) recursion += ackermann_like(14, i);
  printf("recursion %u\n", recursion);
  printf("sort %u\n", sorted_median(200000u * scale));
  printf("pendulum %.9f\n", pendulum(1200000 * scale));
  printf("adler %08x\n", adler(3000000u * scale));
  printf("hash %llu\n", (unsigned long long)probes(1500000u * scale));
  double sum = 0;
  for (int i = 0; i < scale; i++) sum += product(200);
  printf("matrix %.0f\n", sum);
  printf("primes %zu\n", primes(2500000u * scale));
  printf("format %zu\n", formatted(80000 * scale));
  printf("lists %llu\n", (unsigned long long)lists(1500 * scale));
  return 0;
}
