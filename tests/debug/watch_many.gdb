# Six words at once: more than there are debug registers. Deleting one of the first gives its register to another.
# program: large.c
break begin
continue
watch one
watch two
watch three
watch four
watch five
watch six
continue
#> Hardware watchpoint 2: one
continue
#> Hardware watchpoint 3: two
continue
#> Hardware watchpoint 4: three
continue
#> Hardware watchpoint 5: four
continue
#> Hardware watchpoint 6: five
continue
#> Hardware watchpoint 7: six
#> New value = 6
delete 2
continue
#> Hardware watchpoint 5: four
#> Old value = 4
#> New value = 44
continue
#> Hardware watchpoint 7: six
#> Old value = 6
#> New value = 66
reverse-continue
#> Hardware watchpoint 7: six
#> Old value = 66
#> New value = 6
reverse-continue
#> Hardware watchpoint 5: four
#> New value = 4
reverse-continue
#> Hardware watchpoint 7: six
reverse-continue
#> Hardware watchpoint 6: five
reverse-continue
#> Hardware watchpoint 5: four
#> New value = 0
reverse-continue
#> Hardware watchpoint 4: three
reverse-continue
#> Hardware watchpoint 3: two
reverse-continue
#> Breakpoint 1, begin
