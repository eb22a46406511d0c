# The program is gone from the machine: gdb gets it from the trace when it goes to its process.
# program: removed.sh
# other: basics.c
# args: {other}
process nonsense
#> no process of the recording has executed nonsense
process mine
#> Program stopped.
break add
continue
#> add (a=0, b=0) at
info files
#> /trace/files/
back
back
