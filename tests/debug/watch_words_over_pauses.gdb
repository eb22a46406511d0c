# Three words use nearly all debug registers, and the program writes beside them all the time: their pages are guarded
# in place of that for as long only as it is no slower, where the program was stopped at instructions to which it seldom
# comes.
# program: interrupted_writes.c
# modes: hooks no-hooks software
watch all.words[0]
watch all.words[1]
watch all.words[2]
continue
#> Hardware watchpoint 1: all.words[0]
#> New value = 1
continue
#> Hardware watchpoint 2: all.words[1]
#> New value = 2
continue
#> Hardware watchpoint 3: all.words[2]
#> New value = 3
reverse-continue
#> Hardware watchpoint 3: all.words[2]
#> New value = 0
reverse-continue
#> Hardware watchpoint 2: all.words[1]
#> New value = 0
reverse-continue
#> Hardware watchpoint 1: all.words[0]
#> New value = 0
reverse-continue
#> No more reverse-execution history
