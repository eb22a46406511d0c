# Memory of the heap, by its place.
# program: data.c
break fill
continue
finish
watch -location heap->x
#> Hardware watchpoint 2: -location heap->x
watch -location heap->next
continue
#> Hardware watchpoint 2: -location heap->x
#> Old value = 0
#> New value = 5
continue
#> Hardware watchpoint 3: -location heap->next
#> Old value = (struct point *) 0x0
#> <origin>
reverse-continue
#> Hardware watchpoint 3
reverse-continue
#> Hardware watchpoint 2
#> Old value = 5
#> New value = 0
