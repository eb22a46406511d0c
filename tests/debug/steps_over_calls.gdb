# Each step over a system call, and each behind one, executes an instruction: behind calls that map memory, behind others,
# and while bytes are watched where nothing is mapped.
# program: steps_over_calls.c
# modes: hooks no-hooks software
break *mapping
continue
#> Breakpoint 1
stepi
print (long)$pc - (long)&behind_mapping
#> = 0
stepi
print (long)$pc - (long)&behind_mapping
#> = 3
stepi
print (long)$pc - (long)&behind_mapping
#> = 6
break *unmapping
continue
#> Breakpoint 2
stepi
print (long)$pc - (long)&behind_unmapping
#> = 0
stepi
print (long)$pc - (long)&behind_unmapping
#> = 3
reverse-stepi
print (long)$pc - (long)&behind_unmapping
#> = 0
reverse-stepi
print (long)$pc - (long)&unmapping
#> = 0
watch *(char (*)[64]) 0x10000
#> Hardware watchpoint 3
stepi
print (long)$pc - (long)&behind_unmapping
#> = 0
stepi
print (long)$pc - (long)&behind_unmapping
#> = 3
stepi
print (long)$pc - (long)&asking
#> = 0
stepi
print (long)$pc - (long)&behind_asking
#> = 0
stepi
print (long)$pc - (long)&behind_asking
#> = 3
reverse-stepi
print (long)$pc - (long)&behind_asking
#> = 0
reverse-stepi
print (long)$pc - (long)&asking
#> = 0
continue
#> mapped at 0x7
