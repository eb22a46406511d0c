// Forks and executes /bin/true, one after the other, as a shell script does.
// usage: fork_exec TIMES
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int times = argc > 1 ? atoi(argv[1]) : 200;
  for (int i = 0; i < times; i++) {
    pid_t child = fork();
    if (child < 0) return perror("fork"), 1;
    if (child == 0) {
      execl("/bin/true", "true", (char *)NULL);
      _exit(127);
    }
    int status;
    if (waitpid(child, &status, 0) != child) return perror("waitpid"), 1;
    if (status != 0) return fprintf(stderr, "/bin/true ended with status %#x\n", status), 1;
  }
  printf("%d children\n", times);
  return 0;
}
