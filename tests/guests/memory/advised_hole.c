// madvise(MADV_REMOVE) makes a hole in a file through a shared mapping: private mappings of the same file show
// it too, in the same process and in another one, where they have not been written to.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 16 };

static int sum(const unsigned char *bytes)
{
	int all = 0;
	for (int page = 0; page < PAGES; page++)
		all += bytes[page * PAGE + 900] << page % 8;
	return all;
}

int main(void)
{
	static char filled[PAGES * PAGE];
	memset(filled, 3, sizeof filled);
	int fd = memfd_create("advised", 0), to[2], back[2];
	if (fd < 0 || write(fd, filled, sizeof filled) != sizeof filled || pipe(to) || pipe(back))
		return 2;
	unsigned char *shared = mmap(NULL, sizeof filled, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE);
	unsigned char *private = mmap(NULL, sizeof filled, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	pid_t child = fork();
	if (child == 0) {
		munmap(shared, sizeof filled);
		int seen = sum(private);
		char go;
		while (read(to[0], &go, 1) == 1 && go) {
			seen = sum(private);
			if (write(back[1], &seen, sizeof seen) != sizeof seen)
				_exit(3);
		}
		_exit(0);
	}
	private[2 * PAGE + 900] = 7;
	int before = sum(private), others;
	// Pages 2 to 4 of the file.
	if (madvise(shared + PAGE, 3 * PAGE, MADV_REMOVE))
		return 4;
	int after = sum(private);
	if (write(to[1], "x", 1) != 1 || read(back[0], &others, sizeof others) != sizeof others)
		return 5;
	printf("%d, then %d, another process sees %d\n", before, after, others);
	if (write(to[1], "", 1) != 1)
		return 6;
	int status;
	waitpid(child, &status, 0);
	// Its own page is not taken away.
	if (status || private[2 * PAGE + 900] != 7 || private[3 * PAGE + 900] != 0 || private[5 * PAGE + 900] != 3)
		return 1;
	puts("guest ok");
	return 0;
}
