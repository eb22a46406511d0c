# Watchpoints for which debug registers do not suffice, or which need nearly all of them, in a program that was stopped
# in the middle of a loop of a few instructions: those places are found by the program itself, forwards and backwards.
# program: interrupted_loop.c
# modes: hooks no-hooks software
watch *(char(*)[24])filled
continue
#> Hardware watchpoint 1
#> New value = 'a' <repeats
delete 1
continue
#> exited with status 0
watch -l *(char(*)[64])filled
reverse-continue
#> Hardware watchpoint 2
#> Old value = 'a' <repeats 64 times>
continue
#> Hardware watchpoint 2
#> New value = 'a' <repeats 64 times>
delete 2
continue
#> exited with status 0
last *(char(*)[24])filled
#> -> 'a' <repeats 24 times>, by thread 1
reverse-continue
#> No more reverse-execution history
watch *(long *)filled
watch *(long *)untouched
watch *(long *)&untouched[8]
continue
#> Hardware watchpoint 3
#> New value = 7016996765293437281
continue
#> exited with status 0
reverse-continue
#> Hardware watchpoint 3
#> New value = 0
reverse-continue
#> ! Hardware watchpoint
#> No more reverse-execution history
