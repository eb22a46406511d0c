# A breakpoint in memory that is text later, and is written in between: while it is no text, no breakpoint may be in it.
# program: generated_protected.c
break generated_protected.c:30
continue
break *text
#> Breakpoint 2 at
delete 1
continue
#> Breakpoint 2
stepi
print $eax
#> = 41
continue
#> Breakpoint 2
stepi
print $eax
#> = 42
continue
#> Breakpoint 2
stepi
print $eax
#> = 43
continue
#> it exited with status 0
reverse-continue
#> Breakpoint 2
x/i $pc
#> mov    $0x2b,%eax
reverse-continue
#> Breakpoint 2
reverse-continue
#> Breakpoint 2
x/i $pc
#> mov    $0x29,%eax
