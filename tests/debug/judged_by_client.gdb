# A condition that only gdb can judge: it steps back from each hit where that is false, whichever way the program had come there, and searches on.
# program: joins.c
# modes: hooks no-hooks software
tbreak printf
continue
tbreak 16 if $_streq(name, "none") || i == 7
#> Temporary breakpoint
reverse-continue
#> joins.c:16
print i
#> = 7
print both
#> = 7
print name
#> "one"
# From the same place, step by step.
reverse-stepi
stepi
print i
#> = 7
tbreak 16 if $_streq(name, "none") || i == 30
continue
print both
#> = 30
break 16
ignore $bpnum 12
reverse-continue
print i
#> = 17
print thirds
#> = 6
print others
#> = 12
reverse-stepi
stepi
print both
#> = 17
delete
# A watchpoint is told of in front of what has changed the word, also where such a condition has let others pass.
watch both if $_streq(name, "none") || both == 9
reverse-continue
#> Old value = 10
#> New value = 9
print i
#> = 9
reverse-stepi
stepi
print i
#> = 9
stepi
print both
#> = 10
