// libc's streams: buffered reading and writing, ungetc, getline, fseek, popen, tmpfile.
#include "../guest.h"

int main(void) {
  FILE *f = fopen("f", "w+");
  CHECK(f);
  for (int i = 0; i < 5000; i++) CHECK(fprintf(f, "line %d\n", i) > 0);
  CHECK(fflush(f) == 0 && ftell(f) > 40000);
  rewind(f);
  char *line = NULL;
  size_t cap = 0;
  int n = 0;
  while (getline(&line, &cap, f) > 0) CHECK(atoi(line + 5) == n++);
  CHECK(n == 5000 && feof(f));
  CHECK(fseek(f, 7, SEEK_SET) == 0 && fgetc(f) == 'l' && ungetc('L', f) == 'L' && fgetc(f) == 'L');
  fclose(f);
  FILE *p = popen("echo from the shell $$; exit 3", "r");
  CHECK(p && getline(&line, &cap, p) > 0);
  printf("popen: %s", line);
  int status = pclose(p);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  FILE *t = tmpfile();
  CHECK(t && fputs("hidden", t) >= 0 && fclose(t) == 0);
  FILE *m = fmemopen(NULL, 100, "w+");
  CHECK(m && fputs("memory", m) >= 0 && fclose(m) == 0);
  CHECK(system("test -f f") == 0);
  free(line);
  return guest_ok();
}
