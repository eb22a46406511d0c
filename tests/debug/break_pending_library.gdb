# A breakpoint in a library that is loaded later.
# program: loads.c
# library: plugin.c
# args: {library}
set breakpoint pending on
break plugin_answer
#> Breakpoint 1 (plugin_answer) pending
continue
#> Breakpoint 1, plugin_answer (question=21)
#> plugin_calls++;
info sharedlibrary
#> plugin.so
print plugin_calls
#> = 0
next
#> return question * 2;
print plugin_calls
#> = 1
finish
#> Value returned is $3 = 42
reverse-continue
#> Breakpoint 1, plugin_answer (question=21)
print plugin_calls
#> = 0
tbreak main
reverse-continue
#> main (argc=2
