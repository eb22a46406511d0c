# Four watchpoints in a recording by single steps, where pushf is gone over by a breakpoint in a debug register, and a search for a place has another one:
# what is left of registers is less, and the rest is watched by its pages.
# program: flags_and_words.c
# record: --ticks=stepping
# modes: hooks
handle SIGALRM nostop noprint pass
break puts
continue
#> puts
delete
watch one
watch two
watch three
watch four
continue
#> watchpoint 2: one
#> New value = 40
continue
#> watchpoint 3: two
#> New value = 50
continue
#> watchpoint 4: three
#> New value = 60
continue
#> watchpoint 5: four
#> New value = 70
continue
#> watchpoint 2: one
#> New value = 140
continue
#> watchpoint 3: two
#> New value = 150
continue
#> watchpoint 4: three
#> New value = 160
reverse-continue
#> watchpoint 4: three
#> Old value = 160
#> New value = 60
reverse-continue
#> watchpoint 3: two
#> New value = 50
