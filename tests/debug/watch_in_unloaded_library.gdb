# A watchpoint on a variable of a library by its name, back over the dlopen and forwards again: gdb 13 forgets the library there, and
# used what it had freed of it.
# program: loads.c
# library: plugin.c
# args: {library}
set breakpoint pending on
break plugin_answer
continue
#> plugin_answer (question=21)
watch plugin_calls
python for _ in range(12): gdb.execute("reverse-continue", to_string=True)
seek start
info breakpoints
#> ! watchpoint
#> plugin_answer
continue
#> plugin_answer (question=21)
info breakpoints
#> ~ watchpoint +keep y +plugin_calls
continue
#> atchpoint
#> plugin_calls
#> Old value = 0
#> New value = 1
