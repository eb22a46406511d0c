# An array of several pieces, and one of one element.
# program: data.c
tbreak fill
continue
watch bytes
continue
#> Hardware watchpoint 2: bytes
#> Old value = '\000' <repeats 11 times>
#> New value = "a\000
continue
#> New value = "ab\000
continue 10
#> New value = "abcdefghijkl"
delete
watch four
continue
#> Hardware watchpoint 3: four
#> Old value = {0}
#> New value = {44}
reverse-continue
#> Hardware watchpoint 3: four
#> Old value = {44}
#> New value = {0}
