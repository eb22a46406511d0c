# From a place beside a change that a watchpoint has found, in the middle of a long loop, to the begin: the instructions
# there have moved where text counts by itself, and the program cannot count how often it comes to them.
# program: watched_pauses.c
watch milestones
continue
#> New value = 1
continue
#> New value = 2
delete
stepi 2
reverse-stepi
reverse-continue
#> No more reverse-execution history
