# A local variable is watched; a jump to where its function does not run leaves the watchpoint as gdb has it, and one within the function
# keeps it.
# program: basics.c
break twice if value == 3
continue
watch second
checkpoint
continue
#> Hardware watchpoint 2: second
#> New value = 7
restart 1
info breakpoints
#> second
continue
#> New value = 7
