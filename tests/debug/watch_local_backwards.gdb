# A watchpoint on a local variable, gone backwards from the end of its function.
# program: data.c
break data.c:22
continue
#> return local;
watch local
reverse-continue
#> Hardware watchpoint 2: local
#> Old value = 10
#> New value = 5
reverse-continue
#> Old value = 5
#> New value = 4
