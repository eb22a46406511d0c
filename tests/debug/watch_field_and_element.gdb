# Fields of a structure and elements of arrays: of 4, 8 and 1 bytes.
# program: data.c
tbreak main
continue
watch origin.y
watch eight[2]
watch bytes[5]
continue
#> Hardware watchpoint 3: eight[2]
#> Old value = 0
#> New value = 2001
continue
#> Hardware watchpoint 4: bytes[5]
#> New value = 102 'f'
continue
#> Hardware watchpoint 2: origin.y
#> New value = 9
reverse-continue
#> Hardware watchpoint 2: origin.y
#> Old value = 9
#> New value = 0
reverse-continue
#> Hardware watchpoint 4
reverse-continue
#> Hardware watchpoint 3: eight[2]
#> Old value = 2001
#> New value = 0
