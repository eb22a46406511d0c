# Backwards to the begin, where no library is: the program's variables have their types, and can be watched.
# program: data.c
tbreak main
continue
#> main (
print untouched
#> = 7
reverse-continue
#> No more reverse-execution history
print untouched
#> = 7
print origin
#> {x = 0, y = 0,
watch global
#> Hardware watchpoint 2: global
continue
#> Old value = 0
bt
#> main (
