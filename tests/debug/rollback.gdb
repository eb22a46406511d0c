# A program that has gone back to checkpoints of its own: both ways are there, forwards and backwards.
# program: tries.c
break attempt
continue
#> attempt (before=1)
print tries
#> = 0
continue
print tries
#> = 1
continue
print tries
#> = 2
delete
watch word
continue
#> Old value = 0
#> New value = 12
reverse-continue
#> Old value = 12
#> New value = 0
reverse-continue
#> Old value = 0
#> New value = 11
backtrace
#> attempt (before=1)
#> main ()
reverse-continue
#> Old value = 11
#> New value = 0
backtrace
#> set (value=11)
#> attempt
print tries
#> = 1
reverse-continue
#> New value = 10
reverse-continue
#> New value = 0
print tries
#> = 0
delete
reverse-finish
reverse-finish
when
#> 
break set
continue
print value
#> = 10
finish
next
#> set (value=11)
print tries
#> = 1
