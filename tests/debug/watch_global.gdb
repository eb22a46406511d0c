# A watchpoint on a global variable, forwards and backwards, with old and new values.
# program: data.c
# modes: hooks no-hooks software
tbreak main
continue
watch global
#> Hardware watchpoint 2: global
continue
#> Hardware watchpoint 2: global
#> Old value = 0
#> New value = 1
continue
#> Old value = 1
#> New value = 8
#> main ()
continue
#> Old value = 8
#> New value = 3
reverse-continue
#> Hardware watchpoint 2: global
#> Old value = 3
#> New value = 8
reverse-continue
#> Old value = 8
#> New value = 1
reverse-continue
#> Old value = 1
#> New value = 0
reverse-continue
#> No more reverse-execution history
