#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Loads a library by a name that means another file wherever somebody else stands. */
int main(int argc, char **argv)
{
	char folder[4096], name[4096] = "./";
	if (argc != 2)
		return 2;
	strcpy(folder, argv[1]);
	strcat(name, basename(argv[1]));
	if (chdir(dirname(folder)))
		return 3;
	void *plugin = dlopen(name, RTLD_NOW);
	int (*answer)(int) = plugin ? (int (*)(int))dlsym(plugin, "plugin_answer") : NULL;
	if (!answer)
		return 4;
	printf("%d\n", answer(21));
	return 0;
}
