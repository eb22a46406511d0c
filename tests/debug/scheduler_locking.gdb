# In a recording all threads go on, whatever gdb's scheduler-locking says; what gdb shows of each is of where it stands now: the line of
# the stop itself, forwards and backwards, and other threads' registers.
# program: locking.c
break first
continue
#> first (number=10, share=0.25)
info threads
set scheduler-locking on
break second
continue
#> second (number=20, share=0.5)
print $rdi
#> = 20
info threads
continue
#> first (number=11, share=1.25)
thread apply 2 print $rdi != 20
#> = 1
continue
#> second (number=21, share=1.5)
reverse-continue
#> first (number=11, share=1.25)
reverse-continue
#> second (number=20, share=0.5)
set scheduler-locking step
commands
silent
printf "second %d %g\n", number, share
end
continue
#> first (number=11, share=1.25)
continue
#> second 21 1.5
frame
#> second (number=21, share=1.5)
print $xmm0.v2_double[0]
#> = 1.5
thread apply 1 print $rdi != 11
#> = 1
