# A breakpoint on an instruction that gives way to the jump of the search for the next place at which a thread was
# stopped: it is in the jump's copies for as long, and the search needs no stop in each round.
# program: rare_in_tight_loop.c
break *(char *) &milestone
continue
print milestones
#> = 0
continue
print milestones
#> = 1
continue
print milestones
#> = 2
continue
print milestones
#> = 3
continue
print milestones
#> = 4
continue
print milestones
#> = 5
reverse-continue
print milestones
#> = 4
reverse-continue
print milestones
#> = 3
reverse-stepi
print (int) $eflags & 0x40
#> = 64
# Where the thread was stopped right at the breakpoint, another one may come there first.
condition 1 milestones == 3
continue
print milestones
#> = 3
stepi
print milestones
#> = 4
reverse-continue
print milestones
#> = 3
