# There are three debug registers for watchpoints; a fourth is refused, and the others go on.
# program: data.c
tbreak main
continue
watch global
watch eight[0]
watch eight[1]
watch eight[2]
continue
#> ~ Could not insert hardware watchpoint|resources
delete 5
continue
#> Hardware watchpoint 2: global
#> New value = 1
delete 2
watch eight[2]
continue
#> Hardware watchpoint 3: eight[0]
