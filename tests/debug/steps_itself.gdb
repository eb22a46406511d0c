# A program that single-steps itself: its traps come to its handler at breakpoints, in steps over its instructions and
# over its calls, and in both directions. A step and a trap of the program's own are one; and where its own text is put
# back (a jump of bis had led a step astray), the program's trap comes from the jump.
# program: steps_itself.c
handle SIGTRAP nostop noprint pass
break *(char *) &stepped
continue
#> Breakpoint 1
print steps
set $before = steps
stepi
stepi
print $pc == (char *) on_trap
#> = 1
delete
break *(char *) &behind
continue
#> Breakpoint 2
set $behind = steps
print $behind - $before
stepi
stepi
stepi
reverse-stepi
reverse-stepi
reverse-stepi
print $pc == (char *) &behind
#> = 1
delete
watch steps
reverse-continue
#> Hardware watchpoint 3
print steps == $behind - 1
#> = 1
reverse-continue
#> Hardware watchpoint 3
reverse-continue
#> Hardware watchpoint 3
print steps == $behind - 3
#> = 1
delete
break *(char *) &stepped
reverse-continue
#> Breakpoint 4
print steps == $before
#> = 1
# An instruction that steps, and touches what is watched: the trap of the program's own is not lost.
watch -l *(long *) $rsp
delete 4
continue
#> Hardware watchpoint 5
continue
#> Hardware watchpoint 5
continue
#> Hardware watchpoint 5
reverse-continue
#> Hardware watchpoint 5
continue
#> Hardware watchpoint 5
delete
continue
#> 54 steps
#> exited with status 0
