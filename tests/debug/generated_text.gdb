# Text that is made at run time, in which breakpoints are, and that is rewritten.
# program: generated.c
break generated.c:27
continue
continue
#> results[i] = 
print i
#> = 1
break *text
#> Breakpoint 2 at
x/i text
#> mov    $0x2a,%eax
continue
#> Breakpoint 2
stepi
print $eax
#> = 42
reverse-continue
#> Breakpoint 2
reverse-continue
#> Breakpoint 1
reverse-continue
#> Breakpoint 2
x/i $pc
#> mov    $0x29,%eax
stepi
print $eax
#> = 41
watch *(int *)(text + 1)
reverse-continue
#> Breakpoint 2
reverse-continue
#> Breakpoint 1
reverse-continue
#> Hardware watchpoint 3
#> Old value = 41
#> New value = 0
