# A library that the program has loaded by a name from its own folder on is found from the debugger's folder, too.
# program: loads_relative.c
# library: plugin.c
# args: {library}
set breakpoint pending on
break plugin_answer
continue
#> plugin_answer (question=21)
info sharedlibrary
#> ~ Yes.*/plugin[^/]*\.so
