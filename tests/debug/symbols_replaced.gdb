# The program and its library were built anew since the recording: gdb gets both from the trace, with their lines and symbols.
# program: replaced.sh
# other: loads.c
# library: plugin.c
# args: {other} {library}
# replay: -p mine
info files
#> /trace/files/
break loads.c:13
continue
#> loads.c:13
next
info sharedlibrary
#> ~ Yes +/.*/trace/files/
break plugin_answer
continue
#> plugin_answer (question=21) at
next
print plugin_calls
#> = 1
reverse-continue
#> plugin_answer
backtrace
#> plugin_answer (question=21)
#> main (argc=2
continue
#> exited with status 0
