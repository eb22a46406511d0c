# A system call writes what is watched.
# program: reader.c
break before
continue
watch *(int *)buffer
continue
#> Hardware watchpoint 2: *(int *)buffer
#> Old value = 0
#> New value = 1819043176
backtrace
#> main ()
print buffer
#> "hello
continue
#> hello 9 1
reverse-continue
#> Hardware watchpoint 2
#> Old value = 1819043176
#> New value = 0
print buffer[0]
#> = 0
