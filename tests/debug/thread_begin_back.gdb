# Back from the first instruction of a thread: it stays there, and all can be led further back.
# program: threads.c
break work
continue
#> work (
print $_thread
#> = 2
reverse-stepi 2000
#> No more reverse-execution history
print $_thread
#> = 2
set $first = $pc
reverse-stepi
#> No more reverse-execution history
print $pc == $first && $_thread == 2
#> = 1
stepi
print $pc != $first && $_thread == 2
#> = 1
continue
#> work (
delete
reverse-continue
#> No more reverse-execution history
print $_thread
#> = 1
print counter
#> = 0
