# What is displayed at each stop, and gdb's own Python, follow the program backwards.
# program: basics.c
break add
display total
continue
#> 1: total = 0
continue 3
#> 1: total = 2
reverse-continue
#> 1: total = 1
python print("in", gdb.selected_frame().name(), gdb.parse_and_eval("a"))
#> in add
info display
#> total
